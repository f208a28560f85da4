# Completes what is typed for levin, in fish. To have it in this shell: levin completion fish | source
# In all shells, once: levin completion fish > ~/.config/fish/completions/levin.fish

function __levin_rows
    string split \n -- @ROWS@
end

# What the word of a command takes; false where there is no such word.
function __levin_values --argument-names command word
    set -l found (__levin_rows | string match --regex -- '^(?:\Q'$command'\E|\*)\|\Q'$word'\E=?\|([^|]*)\|')
    and echo $found[2]
end

# Options with their help: those of a command that begin with what is typed. Part by part: --trainer. before all that begins so.
function __levin_options --argument-names command typed
    set -l beginning '^\Q'$command'\E\|(\Q'$typed'\E[^|.]*'
    __levin_rows | string replace --filter --regex -- $beginning'\.)[^|]*\|.*' '$1' | sort -u
    __levin_rows | string replace --filter --regex -- $beginning')\|[^|]*\|(.*)' '$1\t$2'
end

function __levin_complete
    set -l typed (commandline --current-token --cut-at-cursor)
    set -l tokens (commandline --current-process --tokenize --cut-at-cursor)
    set -l command ''
    set -l open ''
    set -l values
    for word in $tokens[2..]
        if not set values (__levin_values $command $word)
            set open ''
        else if not string match --quiet -- '-*' $word
            set command (string trim -- "$command $word")
        else
            set open $word
            test "$values" != -
            or set open ''
        end
    end

    set -l prefix ''
    if string match --quiet -- '-*=*' $typed
        set open (string replace --regex '=.*' '' -- $typed)
        set prefix $open=
    else if string match --quiet -- '-*' $typed
        set open ''
    end
    if test -n "$open"
        set values (string split ' ' -- (__levin_values $command $open))
    else
        set values (__levin_rows | string replace --filter --regex -- '^\Q'$command'\E\|\|([^|]*)\|.*' '$1' | string split ' ')
        set -l commands (__levin_rows | string replace --filter --regex -- '^\Q'$command'\E\|([a-z][^|]*)\|-\|(.*)' '$1\t$2')
        if string match --quiet -- '-*' $typed
            or test -z "$values$commands"
            string match --quiet -- '-*' $typed
            or set typed -
            __levin_options $command $typed
            __levin_rows | string match --quiet --regex -- '^\Q'$command'\E\|\*\|'
            and __levin_options '*' $typed
            return
        end
        printf '%s\n' $commands
    end
    for value in $values
        if test $value = @
            set -l files (__fish_complete_path (string replace -- $prefix '' $typed))
            printf '%s\n' $prefix$files
        else
            printf '%s\n' $prefix$value
        end
    end
end

complete --command levin --no-files --arguments '(__levin_complete)'
