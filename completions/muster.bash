# bash completion for muster: it asks the program itself, so it is never out of date.

_muster()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local muster=${COMP_WORDS[0]} command=${COMP_WORDS[1]}

    COMPREPLY=()
    if [[ $COMP_CWORD -eq 1 || ($COMP_CWORD -eq 2 && $command == help) ]]; then
        # shellcheck disable=SC2207
        COMPREPLY=($(compgen -W "$("$muster" help 2>/dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p')" \
            -- "$word"))
        return
    fi
    case $before in
    --token-file | --data | --out | --log-dir | --ckpt-dir | --to | --http-cert | --http-key)
        # shellcheck disable=SC2207
        COMPREPLY=($(compgen -f -- "$word"))
        return
        ;;
    --dtype)
        # shellcheck disable=SC2207
        COMPREPLY=($(compgen -W 'f32 f64 bf16 f16 i32 i64 u8' -- "$word"))
        return
        ;;
    --transport)
        # shellcheck disable=SC2207
        COMPREPLY=($(compgen -W 'shm tcp shm,tcp' -- "$word"))
        return
        ;;
    --compressor)
        # shellcheck disable=SC2207
        COMPREPLY=($(compgen -W 'none snappy gzip' -- "$word"))
        return
        ;;
    --role)
        # shellcheck disable=SC2207
        COMPREPLY=($(compgen -W 'agent viewer operator' -- "$word"))
        return
        ;;
    esac
    if [[ $COMP_CWORD -eq 2 && $word != -* && ($command == bench || $command == ckpt || \
        $command == config || $command == data || $command == resize) ]]; then
        local words=auto

        [[ $command == config ]] && words='get list put rm watch'
        [[ $command == bench ]] && words=allreduce
        [[ $command == data ]] && words='ls cat verify pack'
        [[ $command == ckpt ]] && words='ls save show verify rm export'
        # shellcheck disable=SC2207
        COMPREPLY=($(compgen -W "$words" -- "$word"))
        return
    fi
    if [[ $COMP_CWORD -eq 3 && $command == ckpt && $before != save && -n $word ]]; then
        # shellcheck disable=SC2207
        COMPREPLY=($(compgen -W 'orchestrator:' -- "$word")) # Otherwise it is a folder.
    fi
    if [[ $word == -* ]]; then
        # shellcheck disable=SC2207
        COMPREPLY=($(compgen -W "$("$muster" "$command" --help 2>/dev/null |
            sed -n 's/^  \(-.*\)/\1/p' | grep -o -- '--[a-z][a-z-]*' | sort -u)" -- "$word"))
    fi
}

complete -o default -F _muster muster
