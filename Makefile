# SPDX-License-Identifier: GPL-2.0-only
# The front door. `make help` lists the targets; each calls a program of tools/, which says more with --help.

export BASE GROUND TRANSPORT SUITE V O TREE STACK DEBUG POINT KERNEL_MIRROR
.NOTPARALLEL:
.DEFAULT_GOAL := all
SHELL := /bin/sh
unexport MAKEFLAGS MFLAGS

# A user's own tree for push, pop, status and report; without TREE= they work on the one that `make tree` makes.
own_tree = $${TREE:+"$$TREE"}

##:
.PHONY: all
all: ## set up, fetch the kernel, push the stack, build for UML, run the KUnit suites, show the features at work
	@tools/setup
	@tools/fetch
	@tools/tree
	@tools/kunit
	@tools/demo

.PHONY: check
check: ## everything that must be true: lint, prefixes, suites, self tests in a guest, upstream's vsock tests
	@tools/setup
	@tools/check

.PHONY: kunit
kunit: ## the KUnit suites through the tree's own kunit.py (SUITE=<glob>, GROUND=qemu, DEBUG=1)
	@tools/kunit

.PHONY: kselftest
kselftest: ## the self tests of what the stack touches, in a guest (SUITE=<name>, TRANSPORT=loopback|guest|vhost, STACK=off)
	@tools/kselftest

.PHONY: check-debug
check-debug: ## suites and self tests under KASAN, lockdep, kmemleak, DEBUG_VM and page poisoning
	@DEBUG=1 tools/check

.PHONY: check-all
check-all: check check-debug mutants ## check, check-debug, mutants, self tests guest to guest and on the host side, long runs
	@tools/setup vsock
	@TRANSPORT=guest tools/kselftest
	@TRANSPORT=vhost tools/kselftest
	@VSOCK_CREDIT_MESSAGES=1000000 tools/kselftest vsock_credit
	@VSOCK_URING_CLOSE_ROUNDS=100000 tools/kselftest vsock_uring_test
	@VSOCK_ZEROCOPY_MB=1024 tools/kselftest --only vsock_zerocopy.stream.transfer_in_any_mixture vsock_zerocopy
	@VSOCK_ZEROCOPY_MB=1024 tools/kselftest --only vsock_zerocopy.seqpacket.transfer_in_any_mixture vsock_zerocopy
	@ZC_NOTIFICATION_SENDS=1000000 tools/kselftest --only zc.tcp4.two_threads sendmsg_zc_notification
	@ZC_NOTIFICATION_SENDS=1000000 tools/kselftest --only zc.udp6.two_threads sendmsg_zc_notification
	@ZC_NOTIFICATION_SENDS=1000000 tools/kselftest --only zc.vsock_stream.two_threads sendmsg_zc_notification

.PHONY: mutants
mutants: ## puts known bugs back one at a time; each must turn its named test red (SUITE=<name>)
	@tools/mutants

.PHONY: bench
bench: ## base and patched kernel measured side by side in guest instructions, as table and plot
	@tools/setup bench
	@tools/bench

.PHONY: demo
demo: ## boot the patched kernel and show each feature at work
	@tools/demo

.PHONY: shell
shell: ## an interactive shell in the patched kernel (GROUND=qemu, STACK=off)
	@tools/shell

##:
.PHONY: lint
lint: ## series, headers, generated patches, checkpatch, scripts, spelling: all that needs no kernel build
	@tools/setup lint
	@tools/lint

.PHONY: prefixes
prefixes: ## every prefix of the series builds what it touches, passes its suites, and brings no new warning
	@tools/prefixes

.PHONY: refresh
refresh: ## write the generated patches from their sources and bring all others into normal form
	@tools/refresh

.PHONY: status
status: ## write the table of components by base into README.md
	@tools/status

.PHONY: export
export: ## write a mailbox for `git am`, with a cover letter for each component
	@tools/export

##:
.PHONY: setup
setup: ## install what is missing (as root) or print the one command that does
	@tools/setup build lint qemu bench vsock

.PHONY: fetch
fetch: ## get the pinned kernel tree (TREE=<folder, git repository, tarball>, POINT=<later point release>)
	@tools/fetch

.PHONY: tree
tree: ## make or update the patched kernel tree
	@tools/tree

.PHONY: push
push: ## push the stack onto a tree by quilt (TREE=<your tree>)
	@tools/stack push $(own_tree)

.PHONY: pop
pop: ## take the stack off a tree (TREE=<your tree>)
	@tools/stack pop $(own_tree)

.PHONY: stack-status
stack-status: ## which patches are pushed on a tree (TREE=<your tree>)
	@tools/stack status $(own_tree)

.PHONY: report
report: ## try each patch on a tree: applies, applies with offset, fails where (TREE=<your tree>, POINT=<its version>)
	@tools/stack report $(own_tree)

.PHONY: help
help: ## this list
	@sed -n -e 's/^##:$$//p' -e 's/^\([a-z-]*\):.*## /  \1\t/p' Makefile | expand -t 16
	@echo
	@echo "Everywhere: BASE=<7.3> GROUND=<uml|qemu> SUITE=<glob> STACK=<on|off> DEBUG=<0|1> V=<0|1> O=<folder for all that is built>"
