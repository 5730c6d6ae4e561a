# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# shellcheck disable=SC2034 # most of what is set here is used by the scripts that read it
#
# What every script in tools/ shares. A script reads it as its first step:
#
#     . "$(dirname "$0")/lib.sh"
#
# Sets   TOP BASE GROUND TRANSPORT SUITE V O STACK DEBUG OUT CACHE JOBS KERNEL_CC PATCHES, and PIN_<KEY> for each line of the pin.
# Gives  say die fail new_run rerun quietly tree_of on_exit stack_hash plain_path free_kib have run_quilt need_base need_tree
# Exit codes everywhere: 0 good, 1 a test failed, 2 the kernel broke, 3 set-up or tooling.

set -u
umask 022
LC_ALL=C.UTF-8
PATH=$PATH:/usr/sbin:/sbin
export LC_ALL PATH

# What `make` was told on its command line reaches us in the environment; the makes of the kernel must not see it too.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL MAKEFILES GNUMAKEFLAGS CDPATH
# Settings of the user's own quilt, git and kernel work that would change what we do.
unset ARCH CROSS_COMPILE KBUILD_OUTPUT KCFLAGS LLVM INSTALL_PATH INSTALL_MOD_PATH QUILT_PATCHES QUILT_SERIES QUILT_PC \
	QUILT_PATCH_OPTS QUILT_DIFF_OPTS QUILT_DIFF_ARGS QUILT_PUSH_ARGS QUILT_POP_ARGS QUILT_REFRESH_ARGS \
	QUILT_NO_DIFF_INDEX QUILT_NO_DIFF_TIMESTAMPS QUILT_PATCHES_PREFIX QUILT_COLORS QUILT_PAGER \
	GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE POSIXLY_CORRECT

say() { printf '%s\n' "$*" >&2; }

die() {
	_code=$1
	shift
	say "netzc: $*"
	exit "$_code"
}

have() { command -v "$1" >/dev/null 2>&1; }

# on_exit CMD: CMD (a string for eval) runs when the script ends in whatever way; the last one added runs first.
_EXIT=
on_exit() {
	_EXIT="$1
$_EXIT"
}
_at_exit() {
	_rc=$?
	trap - EXIT
	trap '' INT TERM HUP
	set +e
	eval "$_EXIT"
	exit "$_rc"
}
trap _at_exit EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

_top=$(cd -- "$(dirname -- "$0")" && pwd -P) || exit 3
while [ "$_top" != / ] && ! [ -e "$_top/tools/lib.sh" ]; do _top=$(dirname -- "$_top"); done
TOP=$_top
[ -e "$TOP/tools/lib.sh" ] || die 3 "cannot tell where this repository is"

# The newest base that has a pin is the usual one.
_bases=$(cd "$TOP/patches" && for _p in */pin; do printf '%s\n' "${_p%/pin}"; done | sort -Vr)
_newest=$(printf '%s\n' "$_bases" | head -n 1)
: "${BASE:=$_newest}" "${GROUND:=uml}" "${SUITE:=}" "${V:=0}" "${O:=$TOP/build}" "${STACK:=on}" "${DEBUG:=0}" "${TREE:=}" \
	"${TRANSPORT:=loopback}"
case $O in /*) ;; *) O=$PWD/$O ;; esac
case $GROUND in uml | qemu) ;; *) die 3 "GROUND=$GROUND is not one of: uml qemu" ;; esac
case $TRANSPORT in loopback | guest | vhost) ;; *) die 3 "TRANSPORT=$TRANSPORT is not one of: loopback guest vhost" ;; esac
case $STACK in on | off) ;; *) die 3 "STACK=$STACK is not one of: on off" ;; esac
case $BASE in *[!0-9.]* | '' | .*) _known=no ;; *) _known=yes ;; esac
if [ $_known = no ] || ! [ -r "$TOP/patches/$BASE/pin" ]; then
	# shellcheck disable=SC2086 # one line
	die 3 "BASE=$BASE is not one of:" $_bases
fi
# Exported, so that a script which calls another one passes them on.
export BASE GROUND TRANSPORT SUITE V O STACK DEBUG TREE

# POINT=7.3.6 asks for a later point release of the base; it lives in a folder of its own.
: "${POINT:=}"
case $POINT in
'') OUT=$O/$BASE ;;
"$BASE".*[!0-9]* | "$BASE".) die 3 "POINT=$POINT is not a point release of $BASE" ;;
"$BASE".*) OUT=$O/$POINT ;;
*) die 3 "POINT=$POINT is not a point release of $BASE" ;;
esac
export POINT
PATCHES=$TOP/patches/$BASE
CACHE=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/netzc
JOBS=$(nproc 2>/dev/null || echo 2)

while IFS='=' read -r _k _v; do
	case $_k in
	'' | \#*) ;;
	*[!A-Z0-9_]*) die 3 "patches/$BASE/pin: bad line: $_k=$_v" ;;
	*) eval "PIN_$_k=\$_v" ;;
	esac
done <"$PATCHES/pin"
[ -n "${PIN_VERSION:-}" ] || die 3 "patches/$BASE/pin: no VERSION"
[ -z "$POINT" ] || PIN_VERSION=$POINT

# One compiler cache for base and tree and for every clone: kernels are built in a direct child of their tree, so kbuild
# uses relative paths. A build's own name and date are fixed, so that nothing is rebuilt for them.
CCACHE_DIR=$CACHE/ccache
CCACHE_BASEDIR=$OUT
CCACHE_NOHASHDIR=1
CCACHE_COMPILERCHECK=content
KBUILD_BUILD_USER=netzc
KBUILD_BUILD_HOST=netzc
KBUILD_BUILD_TIMESTAMP='Thu Jan  1 00:00:00 UTC 2026'
export CCACHE_DIR CCACHE_BASEDIR CCACHE_NOHASHDIR CCACHE_COMPILERCHECK
export KBUILD_BUILD_USER KBUILD_BUILD_HOST KBUILD_BUILD_TIMESTAMP
KERNEL_CC=gcc
if have ccache && mkdir -p "$CCACHE_DIR" 2>/dev/null && [ -w "$CCACHE_DIR" ]; then KERNEL_CC='ccache gcc'; fi

# rerun: the command that does again what this script was asked to do, with the settings that differ from the usual.
_quote() {
	case $1 in
	*[!A-Za-z0-9_./=:,@%+*-]* | '') printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")" ;;
	*'*'*) printf "'%s'" "$1" ;;
	*) printf %s "$1" ;;
	esac
}
_SELF=$(
	for _a in "$@"; do
		printf ' '
		_quote "$_a"
	done
)
_SELF=tools/${0##*/}$_SELF
rerun() {
	[ "$BASE" = "$_newest" ] || printf 'BASE=%s ' "$BASE"
	[ -z "$POINT" ] || printf 'POINT=%s ' "$POINT"
	[ "$GROUND" = uml ] || printf 'GROUND=%s ' "$GROUND"
	[ "$TRANSPORT" = loopback ] || printf 'TRANSPORT=%s ' "$TRANSPORT"
	[ "$STACK" = on ] || printf 'STACK=%s ' "$STACK"
	[ "$DEBUG" = 0 ] || printf 'DEBUG=%s ' "$DEBUG"
	[ -z "$SUITE" ] || printf 'SUITE=%s ' "$(_quote "$SUITE")"
	[ "$O" = "$TOP/build" ] || printf 'O=%s ' "$(_quote "$O")"
	printf '%s\n' "$_SELF"
}

# fail CODE CAUSE LOG [RERUN]: how every failed run ends.
fail() {
	say "netzc: $2"
	[ -z "${3:-}" ] || say "log: $3"
	say "rerun: ${4:-$(rerun)}"
	exit "$1"
}

# stack_hash: one number for everything that decides what the patched tree holds.
stack_hash() {
	(
		cd "$TOP" && cat "patches/$BASE/pin" && cat "patches/$BASE/series" 2>/dev/null
		series_patches | while read -r _p; do cat "patches/$BASE/$_p"; done
		generated_sources | while read -r _p _s _d; do echo "$_p $_s $_d" && cat "$_s"; done
	) 2>/dev/null | sha256sum | cut -c1-16
}
# series_patches: the stack's patches in order. generated_sources: lines "<patch> <source here> <path in the kernel>".
series_patches() { [ ! -r "$PATCHES/series" ] || sed -e 's/#.*//' -e 's/[[:space:]].*//' -e '/^$/d' "$PATCHES/series"; }
generated_sources() { [ ! -r "$PATCHES/generated" ] || sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$PATCHES/generated"; }

# files_of PATCH...: the kernel files that patch files touch.
files_of() {
	# Three lines that begin a file's diff; text that only looks like one has no hunk behind it.
	awk '/^--- / { old = $2; next }
		/^\+\+\+ / && old != "" { new = $2; next }
		/^@@ / && new != "" { f = new == "/dev/null" ? old : new; sub(/^[^\/]*\//, "", f); print f }
		{ old = new = "" }' "$@" </dev/null | sort -u
}
# touched_files: those of the whole stack and of the sources that `generated` lists.
touched_files() {
	{
		(cd "$PATCHES" && series_patches | while read -r _p; do [ ! -e "$_p" ] || files_of "$_p"; done)
		generated_sources | while read -r _p _s _d; do printf '%s\n' "$_d"; done
	} | sort -u
}
# copy_touched FROM TO: copies what exists of them into a small tree of their own.
copy_touched() {
	mkdir -p "$2" || return 1
	touched_files | while read -r _f; do [ ! -e "$1/$_f" ] || printf '%s\n' "$_f"; done >"$2.list"
	(cd "$1" && xargs -r -d '\n' cp -p --parents -t "$2") <"$2.list"
}
# kernel_version TREE: the version that its Makefile states, nothing when it is no kernel tree.
kernel_version() {
	[ -r "$1/Makefile" ] && awk '/^VERSION *=/ { v = $3 } /^PATCHLEVEL *=/ { p = $3 } /^SUBLEVEL *=/ { s = $3 } /^EXTRAVERSION *=/ { e = $3; exit }
		END { if (v != "") print v "." p (s != "" && s != "0" ? "." s : "") e }' "$1/Makefile"
}

# new_run WHAT: makes this run's folder and sets RUN to its path; runs/last points to it.
new_run() {
	_stamp=$(date -u +%Y%m%dT%H%M%SZ)
	RUN=$OUT/runs/$_stamp-$1
	mkdir -p "$OUT/runs" || die 3 "cannot make $OUT/runs"
	_n=2
	while ! mkdir "$RUN" 2>/dev/null; do
		[ "$_n" -lt 100 ] || die 3 "cannot make $RUN"
		RUN=$OUT/runs/$_stamp-$1-$_n
		_n=$((_n + 1))
	done
	rerun >"$RUN/command"
	printf '%s %s\n' "$BASE" "$PIN_VERSION" >"$RUN/base"
	stack_hash >"$RUN/stack"
	ln -s "${RUN##*/}" "$OUT/runs/.last.$$" && mv -T "$OUT/runs/.last.$$" "$OUT/runs/last"
}

# _kill_tree PID: ends a process, its group if it leads one, and all below it.
_kill_tree() {
	_all=$(ps -e -o pid= -o ppid= 2>/dev/null | awk -v top="$1" '
		{ up[$1] = $2 } END { for (p in up) { q = p; while (q in up && q != top) q = up[q]; if (q == top) print p } }')
	# shellcheck disable=SC2086 # a list of numbers
	kill -TERM -"$1" $_all 2>/dev/null
	_n=0
	while [ $_n -lt 30 ] && kill -0 "$1" 2>/dev/null; do
		sleep 0.1
		_n=$((_n + 1))
	done
	# shellcheck disable=SC2086
	kill -KILL -"$1" $_all 2>/dev/null
	return 0
}

_tick() {
	_t=0
	while sleep 1 >/dev/null 2>&1; do
		_t=$((_t + 1))
		if [ -t 2 ]; then
			[ "$V" = 1 ] || printf '\r%s: %d s ' "$1" "$_t" >&2
		elif [ $_t -eq 2 ]; then
			say "$1 ..."
		elif [ $((_t % 15)) -eq 0 ]; then
			say "$1: $_t s"
		fi
	done
}

# quietly LABEL LOG CMD...: runs CMD (a program or a function) with its output in LOG, says how long it has been at it,
# and returns its status. V=1 shows the output as well. Ctrl-C ends CMD and all that it started.
quietly() {
	_label=$1 _log=$2
	shift 2
	_t0=$(date +%s)
	: >"$_log" || die 3 "cannot write $_log"
	# A group of its own for a program: a background job of a script ignores Ctrl-C, so we end it ourselves.
	case $(type "$1" 2>/dev/null) in
	*function*) "$@" >>"$_log" 2>&1 </dev/null & ;;
	*) setsid "$@" >>"$_log" 2>&1 </dev/null & ;;
	esac
	_pid=$!
	_tick "$_label" 7>&- 8>&- 9>&- &
	_ticker=$!
	_old_exit=$_EXIT
	on_exit "kill -KILL $_ticker 2>/dev/null; _kill_tree $_pid"
	if [ "$V" = 1 ]; then tail -n +1 -f --pid=$_pid -s 0.2 "$_log" >&2 & fi
	_status=0
	wait $_pid || _status=$?
	# Not TERM: a child of dash that has not yet dropped our trap for it would lose it, and `wait` would never end.
	kill -KILL $_ticker 2>/dev/null
	wait $_ticker 2>/dev/null
	_EXIT=$_old_exit
	_t0=$(($(date +%s) - _t0))
	[ ! -t 2 ] || [ "$V" = 1 ] || printf '\r\033[K' >&2
	if [ "$_status" -eq 0 ] && [ $_t0 -ge 2 ]; then say "$_label: $_t0 s"; fi
	return "$_status"
}

# tree_of on|off: where the patched (on) or the pristine (off) kernel tree is.
tree_of() {
	case $1 in
	on) printf '%s\n' "$OUT/tree" ;;
	off) printf '%s\n' "$OUT/base" ;;
	*) die 3 "tree_of: on or off, not $1" ;;
	esac
}

# need_base, need_tree: stop with the command to run when the tree has not been made yet.
need_base() { [ -e "$OUT/base/Makefile" ] || die 3 "no kernel tree yet: run make fetch (or tools/fetch) first"; }
need_tree() { [ -e "$OUT/tree/Makefile" ] || die 3 "no patched kernel tree yet: run make tree (or tools/tree) first"; }

# plain_path: Linux refuses to be built in a folder whose path has a space or a colon.
plain_path() {
	case $OUT in
	*[[:space:]:]*) die 3 "Linux cannot be built in a path with a space or a colon ($OUT): give another one with O=/some/folder" ;;
	esac
}

# free_kib DIR: free space where DIR is or will be.
free_kib() {
	_d=$1
	while [ ! -d "$_d" ]; do _d=$(dirname -- "$_d"); done
	df -Pk "$_d" | awk 'NR == 2 { print $4 }'
}

# liburing: prints the folder that tools/setup unpacked a recent liburing into (usr/include, usr/lib/...); status 1 if none.
liburing() {
	for _d in "$CACHE"/liburing-* "$O"/liburing-*; do
		[ -e "$_d/usr/include/liburing.h" ] || continue
		printf '%s\n' "$_d"
		return 0
	done
	return 1
}

# run_quilt ARGS: quilt on the tree in the current folder with this base's patches; the user's settings do not count.
# RUN_QUILT_PATCHES=<folder>: with the patches there instead.
run_quilt() {
	QUILT_PATCHES=${RUN_QUILT_PATCHES:-$PATCHES} QUILT_PUSH_ARGS=--fuzz=0 QUILT_DIFF_ARGS='--no-timestamps --no-index -p ab' \
		QUILT_REFRESH_ARGS='--sort --no-timestamps --no-index -p ab' \
		quilt --quiltrc=- "$@"
}

# usage: prints the comment at the top of the script; `case ${1:-} in -h | --help) usage ;; esac`.
usage() {
	sed -n -e '1d' -e '/^# SPDX/d' -e '/^#/!q' -e 's/^# \{0,1\}//p' "$0"
	exit 0
}
