# SPDX-License-Identifier: Apache-2.0
#
# Starts muster's agent on a host; bootstrap.h says what it says. The head writes before it, in the same group of
# commands:
#
#     ms_own     muster's path there, if this is the head's machine; "": not known
#     ms_boot    that machine's boot id
#     ms_pid     the head's process
#     ms_bundles MACHINE:NAME of each bundle that can be sent
#     ms_new     a name that nobody else uses
#
# For any shell that is called sh, and without tar, gzip or checksums if they are missing. Variables begin with ms_,
# because one that the environment has as well would be changed for the workers. Lines that begin with # are not sent.

ms_say() { printf '\n\001muster-start %s\n' "$*"; }
ms_clean() { rm -rf "$ms_folder/${ms_new:?}" 2>/dev/null; }
# What was made is removed first, because the head ends the transport when it hears of a failure.
ms_fail() { ms_clean; ms_say fail "$@"; exit 69; }

# Files that a disk has lost or cut short are there all the same; a program of no bytes even ends with 0.
ms_is_well() {
    [ -s "$ms_name/muster-guard" ] || return
    case $("./$ms_name/muster" --version 2>/dev/null </dev/null) in muster*) ;; *) return 1 ;; esac
}

# A folder is entered first and looked at then: its name may lead elsewhere a moment later, if the folder above belongs
# to others as well. For this reason programs in it are started by a relative path.
ms_kept() {
    cd "$1" 2>/dev/null || return
    if [ -O . ] && [ -O "$ms_name/muster" ] && [ -x "$ms_name/muster" ] && [ -x "$ms_name/muster-guard" ] && ms_is_well; then
        ms_say go "$2" "$1"
        exec "./$ms_name/muster" agent --folder "$ms_here"
    fi
    cd "$ms_here" || return
}

# Its status is 0, or the number of a reason below; 9 where the head is gone.
ms_install() (
    umask 077
    mkdir -p "$1" 2>/dev/null
    cd "$1" 2>/dev/null || exit 1
    [ -O . ] || exit 2
    case $1 in */muster-*) if [ -L "$1" ]; then exit 2; fi ;; esac
    chmod 700 . 2>/dev/null
    mkdir "$ms_new" 2>/dev/null || exit 1
    cd "$ms_new" || exit 1
    # A shell can execute an empty file, but not where the file system is mounted noexec.
    { true >x; } 2>/dev/null || exit 4
    chmod 700 x && ./x 2>/dev/null || exit 3
    ms_gzip=
    if command -v gzip >/dev/null; then ms_gzip=gzip; fi
    ms_say need "$ms_machine" $ms_gzip
    read -r ms_bytes ms_sum ms_files || exit 9
    # All of it is read even if it cannot be written, so that the stream stays in step.
    head -c "$ms_bytes" | { cat >x || { cat >/dev/null; exit 4; }; } 2>/dev/null || exit 4
    if [ -n "$ms_gzip" ]; then
        gzip -dc <x >y 2>/dev/null || { gzip -t <x 2>/dev/null && exit 4; ms_fail damaged; }
        mv y x || exit 4
    fi
    set -- $(cksum <x 2>/dev/null)
    case $1:$2 in : | "$ms_sum") ;; *) ms_fail damaged ;; esac
    # Cut out of a file: of a pipe, head may take more than it gives.
    ms_at=1
    for ms_file in $ms_files; do
        ms_bytes=${ms_file#*:} ms_file=${ms_file%:*}
        case $ms_file in */*) [ -d "${ms_file%/*}" ] || mkdir "${ms_file%/*}" || exit 4 ;; esac
        tail -c "+$ms_at" x 2>/dev/null | head -c "$ms_bytes" 2>/dev/null >"$ms_file" || exit 4
        ms_at=$((ms_at + ms_bytes))
    done
    rm -f x
    chmod -R 700 . || exit 4
    ms_words=$(./muster agent --keep "$ms_name" 2>&1 </dev/null)
    case $? in 0) ;; 65) ms_fail damaged ;; 75) exit 4 ;; *) ms_fail unfit "$ms_words" ;; esac
)

# The file at the head's path is the head's own program.
if [ -n "$ms_own" ]; then
    read -r ms_here 2>/dev/null </proc/sys/kernel/random/boot_id
    if [ "$ms_here" = "$ms_boot" ] && [ "$ms_own" -ef "/proc/$ms_pid/exe" ]; then
        ms_say go own
        exec "$ms_own" agent
    fi
fi

ms_here=$PWD
ms_name=
ms_machine=$(uname -m)
for ms_file in $ms_bundles; do
    case $ms_file in "$ms_machine":*) ms_name=${ms_file#*:} ;; esac
done
if [ -z "$ms_name" ]; then
    ms_say need "$ms_machine"
    exit 69
fi

set --
case ${XDG_CACHE_HOME-} in /*) set -- "$XDG_CACHE_HOME/muster" ;; esac
case ${HOME-} in /*) set -- "$@" "$HOME/.cache/muster" ;; esac
for ms_folder; do ms_kept "$ms_folder" kept; done
ms_user=$(id -u)
set -- "$@" "/var/tmp/muster-$ms_user" "/tmp/muster-$ms_user" "/dev/shm/muster-$ms_user"
for ms_folder; do ms_kept "$ms_folder" kept; done

trap 'ms_clean; exit 75' HUP INT TERM
ms_tried=
for ms_folder; do
    ms_install "$ms_folder"
    ms_status=$?
    ms_clean
    case $ms_status in
    0) ms_kept "$ms_folder" new; ms_why='what was put there is gone' ;;
    1) ms_why='no folder can be made' ;;
    2) ms_why='it belongs to somebody else' ;;
    3) ms_why='programs must not be executed' ;;
    4) ms_why='there is no room' ;;
    *) exit "$ms_status" ;;
    esac
    ms_tried="$ms_tried${ms_tried:+, }$ms_folder ($ms_why)"
done
ms_fail folders "$ms_tried"
