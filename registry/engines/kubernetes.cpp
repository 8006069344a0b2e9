#include "registry/engines/kubernetes.h"

namespace mlc::registry::engines {
namespace {

using cli::Json;

constexpr const char* kKeyFolder = "/etc/mlc/trust";

std::string key_file(size_t index) { return "key-" + std::to_string(index + 1) + ".pem"; }

Json labels(const Deployed& what) { return {{"app.kubernetes.io/name", what.name}, {"app.kubernetes.io/managed-by", "mlpack"}}; }

Json metadata(const Deployed& what, const std::string& name) {
  return {{"name", name}, {"labels", labels(what)}, {"annotations", Json{{"mlc.id", what.id}, {"mlc.version", what.version}, {"mlc.root", what.root}}}};
}

Json config_map(const Deployed& what) {
  Json data = {{"config.pbtxt", what.config}};
  for (size_t i = 0; i < what.keys.size(); ++i) data[key_file(i)] = what.keys[i];
  return {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", metadata(what, what.name + "-mlc")}, {"data", std::move(data)}};
}

Json config_volume(const Deployed& what) { return {{"name", "config"}, {"configMap", Json{{"name", what.name + "-mlc"}, {"defaultMode", 0444}}}}; }

// Each file by itself: the folder of a ConfigMap may be open to all, and files in such a folder decide nothing about trust.
Json file_mount(const std::string& path, const std::string& file) {
  return {{"name", "config"}, {"mountPath", path}, {"subPath", file}, {"readOnly", true}};
}

void add_key_mounts(Json& mounts, const Deployed& what) {
  for (size_t i = 0; i < what.keys.size(); ++i) mounts.push_back(file_mount(std::string(kKeyFolder) + "/" + key_file(i), key_file(i)));
}

// Requests equal limits, in whole CPUs: the process gets exactly these, and is not throttled in the middle of a run.
Json resources(const Deployed& what) {
  const Json amount = {{"cpu", what.cpu}, {"memory", what.memory}};
  return {{"requests", amount}, {"limits", amount}};
}

Json container_security() {
  return {{"allowPrivilegeEscalation", false}, {"readOnlyRootFilesystem", true}, {"runAsNonRoot", true}, {"runAsUser", 1000},
          {"capabilities", Json{{"drop", Json::array({"ALL"})}}}, {"seccompProfile", Json{{"type", "RuntimeDefault"}}}};
}

Json probe(const char* path, const char* port, int seconds, int failures) {
  return {{"httpGet", Json{{"path", path}, {"port", port}}}, {"periodSeconds", seconds}, {"failureThreshold", failures}};
}

// `trust` here binds: no config.pbtxt can ask for less.
std::vector<std::string> server_arguments(const std::string& repository) {
  return {"--model-repository=" + repository, "--strict-readiness=true", "--exit-timeout-secs=30", "--backend-config=mlc,config=/etc/mlc", "--backend-config=mlc,trust=strict"};
}

Json deployment(const Deployed& what) {
  Json command = Json::array({"tritonserver"});
  for (const std::string& argument : server_arguments("/models")) command.push_back(argument);
  Json mounts = Json::array({Json{{"name", "model"}, {"mountPath", "/models/" + what.name + "/1"}, {"subPath", "models"}, {"readOnly", true}},
                             file_mount("/models/" + what.name + "/config.pbtxt", "config.pbtxt"), Json{{"name", "scratch"}, {"mountPath", "/tmp"}}});
  add_key_mounts(mounts, what);
  const Json container = {
      {"name", "server"},
      {"image", what.server},
      {"command", std::move(command)},
      {"ports", Json::array({Json{{"name", "http"}, {"containerPort", 8000}}, Json{{"name", "grpc"}, {"containerPort", 8001}}, Json{{"name", "metrics"}, {"containerPort", 8002}}})},
      {"startupProbe", probe("/v2/health/ready", "http", 2, 150)},
      {"readinessProbe", probe("/v2/health/ready", "http", 5, 3)},
      {"livenessProbe", probe("/v2/health/live", "http", 10, 3)},
      {"resources", resources(what)},
      {"securityContext", container_security()},
      {"volumeMounts", std::move(mounts)}};
  const Json volumes = Json::array({Json{{"name", "model"}, {"image", Json{{"reference", what.image}, {"pullPolicy", "IfNotPresent"}}}}, config_volume(what),
                                    Json{{"name", "scratch"}, {"emptyDir", Json{{"sizeLimit", "64Mi"}}}}});
  const Json pod = {{"automountServiceAccountToken", false}, {"terminationGracePeriodSeconds", 60}, {"containers", Json::array({container})}, {"volumes", volumes}};
  const Json selector = {{"app.kubernetes.io/name", what.name}};
  return {{"apiVersion", "apps/v1"},
          {"kind", "Deployment"},
          {"metadata", metadata(what, what.name)},
          {"spec", Json{{"replicas", what.replicas}, {"selector", Json{{"matchLabels", selector}}}, {"template", Json{{"metadata", Json{{"labels", labels(what)}}}, {"spec", pod}}}}}};
}

Json service(const Deployed& what) {
  Json ports = Json::array({Json{{"name", "http"}, {"port", 8000}, {"targetPort", "http"}}, Json{{"name", "grpc"}, {"port", 8001}, {"targetPort", "grpc"}}});
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", metadata(what, what.name)},
          {"spec", Json{{"selector", Json{{"app.kubernetes.io/name", what.name}}}, {"ports", std::move(ports)}}}};
}

// KServe puts the model at /mnt/models whatever address it came from; Triton wants a folder for each model.
constexpr const char* kPlaceModel =
    "set -e\n"
    "mkdir -p \"/tmp/repository/$1/1\"\n"
    "ln -s /mnt/models/model.mlc \"/tmp/repository/$1/1/model.mlc\"\n"
    "cp /etc/mlc/config.pbtxt \"/tmp/repository/$1/config.pbtxt\"\n"
    "shift\n"
    "exec tritonserver \"$@\"\n";

Json serving_runtime(const Deployed& what) {
  Json arguments = Json::array({kPlaceModel, "tritonserver", what.name, "--http-port=8080", "--grpc-port=9000"});
  for (const std::string& argument : server_arguments("/tmp/repository")) arguments.push_back(argument);
  Json mounts = Json::array({Json{{"name", "scratch"}, {"mountPath", "/tmp"}}, file_mount("/etc/mlc/config.pbtxt", "config.pbtxt")});
  add_key_mounts(mounts, what);
  const Json container = {{"name", "kserve-container"},
                          {"image", what.server},
                          {"command", Json::array({"sh", "-c"})},
                          {"args", std::move(arguments)},
                          {"ports", Json::array({Json{{"name", "http1"}, {"containerPort", 8080}, {"protocol", "TCP"}}})},
                          {"readinessProbe", probe("/v2/health/ready", "http1", 5, 3)},
                          {"resources", resources(what)},
                          {"securityContext", container_security()},
                          {"volumeMounts", std::move(mounts)}};
  const Json volumes = Json::array({config_volume(what), Json{{"name", "scratch"}, {"emptyDir", Json{{"sizeLimit", "64Mi"}}}}});
  // Not for every model of that format: its configuration is that of this one.
  const Json formats = Json::array({Json{{"name", "mlc"}, {"version", "1"}, {"autoSelect", false}}});
  return {{"apiVersion", "serving.kserve.io/v1alpha1"},
          {"kind", "ServingRuntime"},
          {"metadata", metadata(what, what.name + "-mlc")},
          {"spec", Json{{"supportedModelFormats", formats}, {"protocolVersions", Json::array({"v2"})}, {"containers", Json::array({container})}, {"volumes", volumes}}}};
}

Json inference_service(const Deployed& what) {
  const Json model = {{"modelFormat", Json{{"name", "mlc"}, {"version", "1"}}}, {"runtime", what.name + "-mlc"}, {"protocolVersion", "v2"},
                      {"storageUri", what.storage}, {"resources", resources(what)}};
  const Json predictor = {{"minReplicas", what.replicas}, {"automountServiceAccountToken", false}, {"model", model}};
  return {{"apiVersion", "serving.kserve.io/v1beta1"}, {"kind", "InferenceService"}, {"metadata", metadata(what, what.name)}, {"spec", Json{{"predictor", predictor}}}};
}

}  // namespace

std::vector<Document> kubernetes_documents(const Deployed& what) {
  return {{"config-map.yaml", config_map(what)}, {"deployment.yaml", deployment(what)}, {"service.yaml", service(what)}};
}

std::vector<Document> kserve_documents(const Deployed& what) {
  return {{"config-map.yaml", config_map(what)}, {"serving-runtime.yaml", serving_runtime(what)}, {"inference-service.yaml", inference_service(what)}};
}

}  // namespace mlc::registry::engines
