# Completes what is typed for levin, in bash 4.4 or newer. To have it in this shell: source <(levin completion bash)
# In all shells: add that line to ~/.bashrc, or, where the package bash-completion is installed, run once
#   levin completion bash > ~/.local/share/bash-completion/completions/levin

# Sets `values` to what the word of `command` takes; false where there is no such word.
_levin_find() {
  local row
  for row in "${rows[@]}"; do
    [[ $row == "$command|$1|"* || $row == "*|$1|"* || $row == "*|$1=|"* ]] || continue
    row=${row#*|*|}
    values=${row%%|*}
    return
  done
  return 1
}

# Offers the words that begin with what is typed. bash parts that at '=' and ':', and wants the last part only.
_levin_offer() {
  local word
  for word; do
    [[ $word == @ || $word != "$typed"* ]] || COMPREPLY+=("${word:${#typed}-${#current}}")
  done
}

_levin() {
  local IFS=$' \t\n' rows words options=() arguments=() keys='' command='' open='' last='' values
  local word row rest current=$2 line=${COMP_LINE:0:COMP_POINT}
  mapfile -t rows <<<@ROWS@
  read -ra words <<<"$line"
  [[ $line != *[[:blank:]] ]] || words+=('')
  local typed=${words[-1]}
  [[ $current != [=:] ]] || current=''
  for word in "${words[@]:1:${#words[@]}-2}"; do
    if [[ $word != -* ]] && _levin_find "$word"; then
      command+=${command:+ }$word open=''
    elif [[ $word == -* && $word != *=* ]] && _levin_find "$word" && [[ $values != - ]]; then
      open=$word
    else
      open=''
    fi
  done

  COMPREPLY=()
  if [[ $typed == -*=* || ( $open && $typed != -* ) ]]; then
    local prefix=
    [[ $typed != -*=* ]] || open=${typed%%=*} prefix=${typed%%=*}=
    _levin_find "$open" || return
    [[ $values != @ ]] || { compopt -o default && return; }  # bash knows files
    read -ra arguments <<<"$values"
    _levin_offer "${arguments[@]/#/$prefix}"
    return
  fi

  for row in "${rows[@]}"; do
    [[ $row == "$command|"* || ( $keys && $row == '*|'* ) ]] || continue
    row=${row#*|} word=${row%%|*} rest=${row#*|}
    case $word in
      '*') keys=1 ;;
      '') read -ra words <<<"${rest%%|*}" && arguments+=("${words[@]}") ;;
      -*)
        [[ $word == "$typed"* ]] || continue
        # Part by part: --trainer. before all that begins so.
        rest=${word:${#typed}}
        [[ $rest != *.* ]] || word=$typed${rest%%.*}.
        [[ $word == "$last" ]] || options+=("$word")
        last=$word
        ;;
      *) arguments+=("$word") ;;
    esac
  done
  if [[ $typed != -* && ${#arguments[@]} != 0 ]]; then
    [[ " ${arguments[*]} " != *' @ '* ]] || compopt -o default  # where none of the words fits
    _levin_offer "${arguments[@]}"
  else
    _levin_offer "${options[@]}"
    [[ ${COMPREPLY[0]-} != *[=.] ]] || compopt -o nospace
  fi
}
complete -F _levin levin
