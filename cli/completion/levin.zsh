#compdef levin
# Completes what is typed for levin, in zsh. To have it in this shell, behind compinit: source <(levin completion zsh)
# In all shells: add that line to ~/.zshrc, behind compinit; or write the script to a folder of $fpath, once:
#   levin completion zsh > "${fpath[1]}/_levin"

# Sets `values` to what the word of `command` takes; false where there is no such word.
_levin_find() {
  local beginning
  local -a fields
  for beginning in "$command|$1|" "*|$1|" "*|$1=|"; do
    fields=("${(@s:|:)rows[(r)${(b)beginning}*]}")
    (( $#fields < 3 )) || { values=$fields[3]; return 0 }
  done
  return 1
}

_levin() {
  local table=@ROWS@
  local -a rows=("${(@f)table}") arguments verbs fields
  local -A flags
  local command open keys values word row rest typed=$PREFIX
  for word in "${(@)words[2,CURRENT-1]}"; do
    if [[ $word != -* ]] && _levin_find "$word"; then
      command+=${command:+ }$word open=
    elif [[ $word == -* && $word != *=* ]] && _levin_find "$word" && [[ $values != - ]]; then
      open=$word
    else
      open=
    fi
  done

  if [[ $typed == -*=* ]]; then
    open=${typed%%=*}
    compset -P 1 '*='
  elif [[ $typed == -* ]]; then
    open=
  fi
  if [[ -n $open ]]; then
    _levin_find "$open" || return 1
    if [[ $values == @ ]]; then _files; else compadd -- ${=values}; fi
    return
  fi

  local -a closed continued
  for row in $rows; do
    [[ $row == "$command|"* || ( -n $keys && $row == '*|'* ) ]] || continue
    fields=("${(@s:|:)row}")
    word=$fields[2] rest=${word#$typed}
    case $word in
      '*') keys=1 ;;
      '') arguments+=(${=fields[3]}) ;;
      # Part by part: --trainer. before all that begins so.
      -*)
        if [[ $word == $typed* ]]; then
          if [[ $rest == *.* ]]; then flags[$typed${rest%%.*}.]=; else flags[$word]="${(j:|:)fields[4,-1]}"; fi
        fi
        ;;
      *) verbs+=("$word:$fields[4]") ;;
    esac
  done
  if [[ $typed != -* ]] && (( $#arguments + $#verbs )); then
    (( ! ${arguments[(Ie)@]} )) || _files
    compadd -- ${arguments:#@}
    _describe -t commands command verbs
  else
    for word in ${(ok)flags}; do
      [[ $word == *[=.] ]] && continued+=("$word:$flags[$word]") || closed+=("$word:$flags[$word]")
    done
    _describe -t options option closed
    _describe -t options option continued -S ''
  fi
}

if [[ $funcstack[1] == _levin ]]; then _levin "$@"; else compdef _levin levin; fi
