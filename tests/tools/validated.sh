#!/bin/sh
# Runs a command with Vulkan's validation layer, its checks of synchronisation included; fails if the command does, or if the
# layer has anything to say. Skipped, with a line, where the layer is not installed.
#   validated.sh command...
set -eu
[ -e /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json ] || { echo "skipped: vulkan-validationlayers is missing"; exit 0; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/vk_layer_settings.txt" <<SETTINGS
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = error,warn,perf
khronos_validation.log_filename = $folder/messages
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
SETTINGS
status=0
VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation VK_LAYER_SETTINGS_PATH="$folder" "$@" || status=$?
if [ -s "$folder/messages" ]; then
  echo "messages of the validation layer:"
  head -c 20000 "$folder/messages"
  exit 1
fi
[ -e "$folder/messages" ] || { echo "the validation layer was not loaded"; [ "$status" -ne 0 ] || exit 1; }
exit "$status"
