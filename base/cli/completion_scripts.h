// The scripts that make shells call the tool. TOOL stands for its name.
#pragma once

namespace mlc::cli {

// '=' and ':' are words of their own to bash: what was written together is put together, and of the answers only what
// follows the last of them is given back.
inline constexpr const char* kBashScript = R"(# Completion of TOOL for bash: source <(TOOL completion bash)
_TOOL() {
  local words=() word meaning path before= glue= i
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((i > 1)) && [[ $glue || $word == [=:]* ]]; then words[-1]+=$word; else words+=("$word"); fi
    glue=
    [[ $word == *[=:] ]] && glue=1
  done
  local current=${words[-1]} breaks=${COMP_WORDBREAKS//[^=:]/}
  [[ $breaks ]] && before=${current%"${current##*[$breaks]}"}
  for i in "${!words[@]}"; do
    words[i]=${words[i]//[\\\"\']/}
    words[i]=${words[i]/#\~\//$HOME/}
  done
  COMPREPLY=()
  while IFS=$'\t' read -r word meaning; do
    if [[ $word != :files ]]; then
      word=${word#"$before"}
      # A file may name its inputs as it likes: what a shell could take for more than a word is quoted.
      [[ $word == *[!A-Za-z0-9._+:/=,@%-]* ]] && printf -v word %q "$word"
      COMPREPLY+=("$word")
      continue
    fi
    while IFS= read -r path; do
      [[ -d ${path/#\~/$HOME} ]] && path+=/
      path=${path#"${before##*=}"}
      printf -v path %q "$path"
      COMPREPLY+=("${path/#\\~/\~}")
    done < <(compgen -f -- "${current##*=}")
  done < <("${COMP_WORDS[0]/#\~\//$HOME/}" __complete "${words[@]}" 2>/dev/null)
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/,] ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _TOOL TOOL
)";

inline constexpr const char* kZshScript = R"(#compdef TOOL
# Completion of TOOL for zsh: source <(TOOL completion zsh), or as the file _TOOL in a folder of $fpath
_TOOL() {
  local word meaning files=
  local -a ended open
  while IFS=$'\t' read -r word meaning; do
    if [[ $word == :files ]]; then
      files=1
    elif [[ $word == *= ]]; then
      open+=("${word//:/\\:}${meaning:+:$meaning}")
    else
      ended+=("${word//:/\\:}${meaning:+:$meaning}")
    fi
  done < <("${(Q)words[1]/#\~\//$HOME/}" __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)
  (( $#ended )) && _describe -V 'answer' ended
  (( $#open )) && _describe -V 'answer' open -S ''
  if [[ -n $files ]]; then
    compset -P '*='
    _files
  fi
}
if [[ $funcstack[1] == _TOOL ]]; then _TOOL "$@"; else compdef _TOOL TOOL; fi
)";

inline constexpr const char* kFishScript = R"(# Completion of TOOL for fish: TOOL completion fish | source
function __TOOL_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l tool $words[1]
    set -e words[1]
    for line in ($tool __complete $words "$word" 2>/dev/null)
        if test "$line" != ":files"
            printf '%s\n' $line
            continue
        end
        set -l before (string match -r '^.*=' -- "$word")
        for path in (__fish_complete_path (string replace -r '^.*=' '' -- "$word"))
            printf '%s\n' "$before$path"
        end
    end
end
complete -c TOOL -f -a '(__TOOL_complete)'
)";

}  // namespace mlc::cli
