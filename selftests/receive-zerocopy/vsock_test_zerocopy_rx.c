// SPDX-License-Identifier: GPL-2.0-only
/*
 * Zero-copy receive on AF_VSOCK, between the two ends of any transport.
 *
 * The client sends a stream of bytes that depend on nothing but their
 * position, cut into packets or messages by a seed that both ends know.  The
 * server maps its socket and receives them with SO_VM_SOCKETS_ZEROCOPY, alone
 * or mixed with recv(), and looks after each call at all that must hold: the
 * bytes, the ends of the messages, zeroes behind the last header and behind
 * the last byte of each page, and the counts in the argument.
 *
 * Transports may cut and join the packets of a stream.  Only over loopback
 * does a packet arrive as it was sent.
 *
 * VSOCK_ZEROCOPY_MB on the client sets the length of the random transfers,
 * VSOCK_ZEROCOPY_SEED their choices; the server prints it with a failure.
 * VSOCK_ZEROCOPY_PACKET is the most that a stream sends at once: not every
 * device passes on what the transport can send.
 */

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/kernel.h>
#include <linux/sockios.h>
#include <linux/virtio_vsock.h>
#include <linux/vm_sockets.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "control.h"
#include "msg_zerocopy_common.h"
#include "timeout.h"
#include "vsock_test_zerocopy_rx.h"

#define PAGES		64
#define ALL_FLAGS	(VIRTIO_VSOCK_SEQ_EOM | VIRTIO_VSOCK_SEQ_EOR | \
			 VIRTIO_VSOCK_USR_COPIED)

static unsigned long seed;

#define check(cond) do { \
	if (!(cond)) { \
		fprintf(stderr, "%s:%d: expected: %s (seed %lu)\n", \
			__func__, __LINE__, #cond, seed); \
		exit(EXIT_FAILURE); \
	} \
} while (0)

#define check_eq(seen, expected) do { \
	long long __seen = (seen), __expected = (expected); \
	if (__seen != __expected) { \
		fprintf(stderr, "%s:%d: %s is %lld, expected %lld (seed %lu)\n", \
			__func__, __LINE__, #seen, __seen, __expected, seed); \
		exit(EXIT_FAILURE); \
	} \
} while (0)

/* ---------- what is sent ---------- */

/* Byte n is byte n % PERIOD of this; it is never zero. */
#define PERIOD		65521
#define SLICE		(512 * 1024)
static unsigned char pattern[PERIOD + SLICE];

static const unsigned char *at(unsigned long long pos)
{
	if (!pattern[0]) {
		__u32 x = 1;
		size_t i;

		for (i = 0; i < sizeof(pattern); i++) {
			x = i % PERIOD ? x : 1;
			x = x * 1664525 + 1013904223;
			pattern[i] = 1 + (x >> 24) % 255;
		}
	}

	return pattern + pos % PERIOD;
}

static bool is_zero(const char *c, size_t len)
{
	while (len--)
		if (*c++)
			return false;

	return true;
}

static __u32 rnd(__u32 *state, __u32 limit)
{
	*state = *state * 1664525 + 1013904223;

	return (unsigned long long)*state * limit >> 32;
}

static unsigned long from_env(const char *name, unsigned long otherwise)
{
	const char *value = getenv(name);

	return value && *value ? strtoul(value, NULL, 0) : otherwise;
}

/* How a transfer is cut: both ends go through the same numbers. */
struct cut {
	unsigned long long total;
	const size_t *sizes;	/* count of them, or random ones if NULL */
	size_t count;
	size_t limit;
	bool records;		/* some messages end with MSG_EOR */
	/* Of the walk through them. */
	unsigned long long end;
	__u32 state;
	size_t next;
	bool eor;
};

/* Goes on to the next packet or message; false behind the last. */
static bool next_piece(struct cut *cut)
{
	size_t len;

	if (cut->sizes) {
		if (cut->next == cut->count)
			return false;
		len = cut->sizes[cut->next++];
	} else {
		if (cut->end == cut->total)
			return false;
		len = 1 + rnd(&cut->state, cut->limit);
		if (len > 4096 && !rnd(&cut->state, 2))
			len -= len % 4096;
		if (len > cut->total - cut->end)
			len = cut->total - cut->end;
	}
	cut->eor = cut->records && rnd(&cut->state, 2);
	cut->end += len;

	return true;
}

static void begin(struct cut *cut)
{
	size_t i;

	cut->state = seed;
	cut->end = 0;
	cut->next = 0;
	if (cut->sizes) {
		cut->total = 0;
		for (i = 0; i < cut->count; i++)
			cut->total += cut->sizes[i];
	}
}

static void send_pieces(int fd, struct cut *cut)
{
	unsigned long most = from_env("VSOCK_ZEROCOPY_PACKET", ULONG_MAX);
	unsigned long long pos = 0;
	size_t len;

	begin(cut);
	while (next_piece(cut)) {
		do {
			len = cut->end - pos;
			if (len > most)
				len = most;
			send_buf(fd, at(pos), len, cut->eor ? MSG_EOR : 0, len);
			pos += len;
		} while (pos < cut->end);
	}
}

/* The client says which random numbers and how many megabytes. */
static unsigned long long send_choice(unsigned long mb)
{
	seed = from_env("VSOCK_ZEROCOPY_SEED", 1);
	if (mb)
		mb = from_env("VSOCK_ZEROCOPY_MB", mb);
	control_writeulong(seed);
	control_writeulong(mb);

	return (unsigned long long)mb << 20;
}

static unsigned long long recv_choice(void)
{
	seed = control_readulong();

	return (unsigned long long)control_readulong() << 20;
}

static int client_connect(const struct test_opts *opts, int type)
{
	int fd = vsock_connect(opts->peer_cid, opts->peer_port, type);

	if (fd < 0) {
		perror("connect");
		exit(EXIT_FAILURE);
	}

	return fd;
}

/* ---------- the receiver ---------- */

struct receiver {
	int fd;
	int type;
	char *p;
	size_t page;
	unsigned long long got;
	struct cut cut;
	bool quiet;		/* nothing more arrives in the meantime */
};

static void accept_client(struct receiver *r, const struct test_opts *opts,
			  int type)
{
	memset(r, 0, sizeof(*r));
	r->type = type;
	r->page = getpagesize();
	r->fd = vsock_accept(VMADDR_CID_ANY, opts->peer_port, NULL, type);
	if (r->fd < 0) {
		perror("accept");
		exit(EXIT_FAILURE);
	}
}

static void opt_in_and_map(struct receiver *r)
{
	int one = 1;

	if (setsockopt(r->fd, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY, &one,
		       sizeof(one))) {
		perror("setsockopt SO_VM_SOCKETS_ZEROCOPY");
		exit(EXIT_FAILURE);
	}
	r->p = mmap(NULL, PAGES * r->page, PROT_READ, MAP_SHARED, r->fd, 0);
	if (r->p == MAP_FAILED) {
		perror("mmap of the socket");
		exit(EXIT_FAILURE);
	}
}

static void close_receiver(struct receiver *r)
{
	check_eq(munmap(r->p, PAGES * r->page), 0);
	close(r->fd);
}

static void expect_pieces(struct receiver *r, struct cut *cut)
{
	begin(cut);
	r->cut = *cut;
	next_piece(&r->cut);
}

static int queued(struct receiver *r)
{
	int bytes = -1;

	check_eq(ioctl(r->fd, SIOCINQ, &bytes), 0);

	return bytes;
}

static void wait_queued(struct receiver *r, int bytes)
{
	timeout_begin(TIMEOUT);
	while (queued(r) != bytes) {
		timeout_usleep(1000);
		timeout_check("SIOCINQ");
	}
	timeout_end();
}

static void wait_event(struct receiver *r, short event)
{
	struct pollfd pfd = { .fd = r->fd, .events = event };

	check_eq(poll(&pfd, 1, TIMEOUT * 1000), 1);
	check(pfd.revents & event);
}

static void account(struct receiver *r, size_t len, bool eom, bool eor)
{
	r->got += len;
	check(r->got <= r->cut.total);
	if (r->type == SOCK_STREAM) {
		check(!eom && !eor);
		return;
	}

	check(r->got <= r->cut.end);
	check_eq(eom, r->got == r->cut.end);
	check_eq(eor, eom && r->cut.eor);
	if (eom)
		next_piece(&r->cut);
}

static void check_bytes(struct receiver *r, const void *buf, size_t len)
{
	unsigned long long pos = r->got;
	const char *c = buf;

	while (len) {
		size_t n = len < SLICE ? len : SLICE;

		check(!memcmp(c, at(pos), n));
		c += n;
		pos += n;
		len -= n;
	}
}

/* Looks at what a call has brought to @p, and counts it. */
static void look(struct receiver *r, const char *p, size_t pages,
		 struct vm_sockets_zerocopy *sum)
{
	const struct virtio_vsock_usr_hdr *hdr = (const void *)p;
	size_t used = 1, i;

	memset(sum, 0, sizeof(*sum));
	for (i = 0; i < r->page / sizeof(*hdr); i++) {
		size_t len = hdr[i].len, rest = -len & (r->page - 1);

		if (!len && !hdr[i].flags)
			break;
		check_eq(hdr[i].flags & ~ALL_FLAGS, 0);
		check(len > 0);
		check(used + (len + rest) / r->page <= pages);
		check_bytes(r, p + used * r->page, len);
		check(is_zero(p + used * r->page + len, rest));
		account(r, len, hdr[i].flags & VIRTIO_VSOCK_SEQ_EOM,
			hdr[i].flags & VIRTIO_VSOCK_SEQ_EOR);
		used += (len + rest) / r->page;
		sum->headers++;
		sum->bytes += len;
		if (hdr[i].flags & VIRTIO_VSOCK_USR_COPIED)
			sum->copied += len;
	}
	check(is_zero((const char *)&hdr[i], r->page - i * sizeof(*hdr)));
}

static int fill(struct receiver *r, struct vm_sockets_zerocopy *arg,
		const void *p, size_t length)
{
	socklen_t len = sizeof(*arg);

	memset(arg, 0, sizeof(*arg));
	arg->address = (uintptr_t)p;
	arg->length = length;

	return getsockopt(r->fd, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY, arg, &len);
}

/* One call that fills @pages of the mapping from the first or a later page. */
static struct vm_sockets_zerocopy take_at(struct receiver *r, size_t first,
					  size_t pages)
{
	const char *p = r->p + first * r->page;
	struct vm_sockets_zerocopy arg, sum;

	if (fill(r, &arg, p, pages * r->page)) {
		perror("getsockopt SO_VM_SOCKETS_ZEROCOPY");
		exit(EXIT_FAILURE);
	}
	look(r, p, pages, &sum);
	check_eq(arg.headers, sum.headers);
	check_eq(arg.bytes, sum.bytes);
	check_eq(arg.copied, sum.copied);
	check_eq(arg.error, 0);
	check_eq(arg.reserved, 0);
	check_eq(arg.reserved2, 0);
	if (r->quiet) {
		check_eq(arg.queued, r->cut.total - r->got);
		check_eq(queued(r), r->cut.total - r->got);
		check_eq(!!(arg.status & VM_SOCKETS_ZEROCOPY_MORE),
			 r->got < r->cut.total);
	}

	return arg;
}

static struct vm_sockets_zerocopy take(struct receiver *r, size_t pages)
{
	return take_at(r, 0, pages);
}

/* The same with the short form, which uses the whole mapping. */
static void take_short(struct receiver *r)
{
	__u64 address = (uintptr_t)r->p;
	socklen_t len = sizeof(address);
	struct vm_sockets_zerocopy sum;

	check_eq(getsockopt(r->fd, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY, &address,
			    &len), 0);
	check_eq(len, sizeof(address));
	look(r, r->p, PAGES, &sum);
}

/* recv() of at most @len bytes of what is there; a message comes whole. */
static size_t take_recv(struct receiver *r, size_t len, int flags)
{
	static char buf[SLICE];
	struct iovec iov = { .iov_base = buf, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t ret = recvmsg(r->fd, &msg, flags | MSG_DONTWAIT);

	if (ret < 0 && errno == EAGAIN)
		return 0;
	check(ret >= 0);
	check_bytes(r, buf, ret);
	if (ret && !(flags & MSG_PEEK))
		account(r, ret, r->type == SOCK_SEQPACKET,
			msg.msg_flags & MSG_EOR);

	return ret;
}

static void recv_all(struct receiver *r)
{
	while (r->got < r->cut.total) {
		wait_event(r, POLLIN);
		take_recv(r, SLICE, 0);
	}
	check_eq(queued(r), 0);
}

/* Both ends of the smaller tests: all of @cut is queued before it is taken. */
static void send_and_wait(const struct test_opts *opts, int type,
			  struct cut *cut)
{
	int fd = client_connect(opts, type);

	send_choice(0);
	control_expectln("SEND");
	send_pieces(fd, cut);
	control_expectln("DONE");
	close(fd);
}

static void accept_queued(struct receiver *r, const struct test_opts *opts,
			  int type, struct cut *cut)
{
	accept_client(r, opts, type);
	recv_choice();
	opt_in_and_map(r);
	expect_pieces(r, cut);
	control_writeln("SEND");
	wait_queued(r, r->cut.total);
	r->quiet = true;
}

/* ---------- the worked example ---------- */

static const size_t example_sizes[] = { 56, 4096, 8200 };
static const struct cut example = {
	.sizes = example_sizes,
	.count = ARRAY_SIZE(example_sizes),
};

static void example_client(const struct test_opts *opts, int type)
{
	struct cut cut = example;

	send_and_wait(opts, type, &cut);
}

static void example_server(const struct test_opts *opts, int type)
{
	__u32 eom = type == SOCK_SEQPACKET ? VIRTIO_VSOCK_SEQ_EOM : 0;
	const struct virtio_vsock_usr_hdr *hdr;
	struct vm_sockets_zerocopy arg;
	struct cut cut = example;
	struct receiver r;
	size_t i;

	accept_queued(&r, opts, type, &cut);
	arg = take(&r, PAGES);
	check_eq(arg.bytes, 12352);

	/* A packet is a packet only where no transport cuts or joins them. */
	hdr = (void *)r.p;
	if (opts->peer_cid == VMADDR_CID_LOCAL && r.page == 4096) {
		check_eq(arg.headers, 3);
		for (i = 0; i < arg.headers; i++) {
			check_eq(hdr[i].len, example_sizes[i]);
			check_eq(hdr[i].flags & ~VIRTIO_VSOCK_USR_COPIED, eom);
		}
		check(!memcmp(r.p + r.page, at(0), 56));
		check(!memcmp(r.p + 2 * r.page, at(56), 4096));
		check(!memcmp(r.p + 3 * r.page, at(4152), 8200));
	}
	control_writeln("DONE");
	close_receiver(&r);
}

void test_stream_zcrx_example_client(const struct test_opts *opts)
{
	example_client(opts, SOCK_STREAM);
}

void test_stream_zcrx_example_server(const struct test_opts *opts)
{
	example_server(opts, SOCK_STREAM);
}

void test_seqpacket_zcrx_example_client(const struct test_opts *opts)
{
	example_client(opts, SOCK_SEQPACKET);
}

void test_seqpacket_zcrx_example_server(const struct test_opts *opts)
{
	example_server(opts, SOCK_SEQPACKET);
}

/* ---------- errors leave the data where it is ---------- */

static const size_t error_sizes[] = { 56, 4096, 8200, 40000, 1 };
static const struct cut errors = {
	.sizes = error_sizes,
	.count = ARRAY_SIZE(error_sizes),
};

static void errors_client(const struct test_opts *opts, int type)
{
	struct cut cut = errors;

	send_and_wait(opts, type, &cut);
}

static void errors_server(const struct test_opts *opts, int type)
{
	struct vm_sockets_zerocopy *arg;
	struct cut cut = errors;
	struct receiver r;
	socklen_t len;
	int off = 0;
	char *other;

	accept_queued(&r, opts, type, &cut);
	arg = mmap(NULL, r.page, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(arg != MAP_FAILED);
	other = mmap(NULL, PAGES * r.page, PROT_READ,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(other != MAP_FAILED);

	check_eq(fill(&r, arg, other, PAGES * r.page), -1);
	check_eq(errno, EINVAL);
	check_eq(fill(&r, arg, r.p + 8, 4 * r.page), -1);
	check_eq(errno, EINVAL);
	check_eq(fill(&r, arg, r.p, r.page), -1);
	check_eq(errno, EINVAL);
	check_eq(fill(&r, arg, r.p + r.page, PAGES * r.page), -1);
	check_eq(errno, EINVAL);
	for (len = 0; len < 16; len += len == 7 ? 2 : 1) {
		socklen_t given = len;

		check_eq(getsockopt(r.fd, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY, arg,
				    &given), -1);
		check_eq(errno, EINVAL);
	}

	/* An argument that can be read and not written. */
	memset(arg, 0, sizeof(*arg));
	arg->address = (uintptr_t)r.p;
	arg->length = PAGES * r.page;
	check_eq(mprotect(arg, r.page, PROT_READ), 0);
	len = sizeof(*arg);
	check_eq(getsockopt(r.fd, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY, arg, &len),
		 -1);
	check_eq(errno, EFAULT);
	check_eq(mprotect(arg, r.page, PROT_READ | PROT_WRITE), 0);

	check_eq(setsockopt(r.fd, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY, &off,
			    sizeof(off)), 0);
	check_eq(fill(&r, arg, r.p, PAGES * r.page), -1);
	check_eq(errno, EACCES);

	check_eq(queued(&r), r.cut.total);
	recv_all(&r);
	control_writeln("DONE");
	check_eq(munmap(arg, r.page), 0);
	check_eq(munmap(other, PAGES * r.page), 0);
	close_receiver(&r);
}

void test_stream_zcrx_errors_client(const struct test_opts *opts)
{
	errors_client(opts, SOCK_STREAM);
}

void test_stream_zcrx_errors_server(const struct test_opts *opts)
{
	errors_server(opts, SOCK_STREAM);
}

void test_seqpacket_zcrx_errors_client(const struct test_opts *opts)
{
	errors_client(opts, SOCK_SEQPACKET);
}

void test_seqpacket_zcrx_errors_server(const struct test_opts *opts)
{
	errors_server(opts, SOCK_SEQPACKET);
}

/* ---------- transfers ---------- */

/* A sender that does not wait for the receiver. */
static void transfer_client(const struct test_opts *opts, int type,
			    unsigned long mb, const struct cut *how)
{
	int fd = client_connect(opts, type);
	struct cut cut = *how;

	cut.total = send_choice(mb) ?: cut.total;
	control_expectln("SEND");
	send_pieces(fd, &cut);
	control_expectln("DONE");
	close(fd);
}

static void transfer_begin(struct receiver *r, const struct test_opts *opts,
			   int type, const struct cut *how)
{
	struct cut cut = *how;

	accept_client(r, opts, type);
	cut.total = recv_choice() ?: cut.total;
	opt_in_and_map(r);
	expect_pieces(r, &cut);
	control_writeln("SEND");
}

static void transfer_end(struct receiver *r)
{
	struct vm_sockets_zerocopy arg;

	check_eq(queued(r), 0);
	arg = take(r, 2);
	check_eq(arg.headers, 0);
	check_eq(arg.status, 0);
	control_writeln("DONE");
	close_receiver(r);
}

static const struct cut random_cut = { .limit = 70000, .records = true };

static void random_server(const struct test_opts *opts, int type)
{
	__u32 state;
	struct receiver r;
	size_t pages, calls = 0;

	transfer_begin(&r, opts, type, &random_cut);
	state = ~seed;
	while (r.got < r.cut.total) {
		wait_event(&r, POLLIN);
		if (calls++ % 16 == 0) {
			take_short(&r);
			continue;
		}
		pages = 2 + rnd(&state, PAGES - 1);
		take_at(&r, rnd(&state, PAGES - pages + 1), pages);
	}
	transfer_end(&r);
}

void test_stream_zcrx_random_client(const struct test_opts *opts)
{
	transfer_client(opts, SOCK_STREAM, 16, &random_cut);
}

void test_stream_zcrx_random_server(const struct test_opts *opts)
{
	random_server(opts, SOCK_STREAM);
}

void test_seqpacket_zcrx_random_client(const struct test_opts *opts)
{
	transfer_client(opts, SOCK_SEQPACKET, 16, &random_cut);
}

void test_seqpacket_zcrx_random_server(const struct test_opts *opts)
{
	random_server(opts, SOCK_SEQPACKET);
}

static void mixed_server(const struct test_opts *opts, int type)
{
	size_t pages, len;
	struct receiver r;
	__u32 state;

	transfer_begin(&r, opts, type, &random_cut);
	state = ~seed;
	while (r.got < r.cut.total) {
		wait_event(&r, POLLIN);
		len = 1 + rnd(&state, 20000);
		switch (rnd(&state, 4)) {
		case 0:
			/* A message that does not fit would be cut. */
			take_recv(&r, type == SOCK_STREAM ? len : SLICE, 0);
			break;
		case 1:
			take_recv(&r, len, MSG_PEEK);
			break;
		default:
			pages = 2 + rnd(&state, PAGES - 1);
			take_at(&r, rnd(&state, PAGES - pages + 1), pages);
		}
	}
	transfer_end(&r);
}

void test_stream_zcrx_mixed_client(const struct test_opts *opts)
{
	transfer_client(opts, SOCK_STREAM, 16, &random_cut);
}

void test_stream_zcrx_mixed_server(const struct test_opts *opts)
{
	mixed_server(opts, SOCK_STREAM);
}

void test_seqpacket_zcrx_mixed_client(const struct test_opts *opts)
{
	transfer_client(opts, SOCK_SEQPACKET, 16, &random_cut);
}

void test_seqpacket_zcrx_mixed_server(const struct test_opts *opts)
{
	mixed_server(opts, SOCK_SEQPACKET);
}

/* Nothing but the mapping: the credit must come back. */
static const struct cut large_cut = {
	.total = 64 << 20,
	.limit = 128 * 1024,
};

static void alone_server(const struct test_opts *opts, int type)
{
	struct receiver r;

	transfer_begin(&r, opts, type, &large_cut);
	while (r.got < r.cut.total) {
		wait_event(&r, POLLIN);
		take(&r, PAGES);
	}
	transfer_end(&r);
}

void test_stream_zcrx_alone_client(const struct test_opts *opts)
{
	transfer_client(opts, SOCK_STREAM, 0, &large_cut);
}

void test_stream_zcrx_alone_server(const struct test_opts *opts)
{
	alone_server(opts, SOCK_STREAM);
}

void test_seqpacket_zcrx_alone_client(const struct test_opts *opts)
{
	transfer_client(opts, SOCK_SEQPACKET, 0, &large_cut);
}

void test_seqpacket_zcrx_alone_server(const struct test_opts *opts)
{
	alone_server(opts, SOCK_SEQPACKET);
}

/* A page for each byte would be 4096 times what the credit allows. */
static const struct cut flood_cut = { .total = 20000, .limit = 1 };

void test_stream_zcrx_flood_client(const struct test_opts *opts)
{
	transfer_client(opts, SOCK_STREAM, 0, &flood_cut);
}

void test_stream_zcrx_flood_server(const struct test_opts *opts)
{
	struct receiver r;
	size_t calls = 0;

	transfer_begin(&r, opts, SOCK_STREAM, &flood_cut);
	while (r.got < r.cut.total) {
		/* Let some of them queue up. */
		if (calls++ % 8 == 0)
			usleep(5000);
		wait_event(&r, POLLIN);
		take(&r, PAGES);
	}
	transfer_end(&r);
}

/* ---------- the end of the connection ---------- */

static const size_t eof_sizes[] = { 20480, 100, 40960, 7 };
static const struct cut eof = {
	.sizes = eof_sizes,
	.count = ARRAY_SIZE(eof_sizes),
};

static void eof_client(const struct test_opts *opts, int type)
{
	int fd = client_connect(opts, type);
	struct cut cut = eof;

	send_choice(0);
	control_expectln("SEND");
	send_pieces(fd, &cut);
	close(fd);
	control_expectln("DONE");
}

static void eof_server(const struct test_opts *opts, int type)
{
	struct vm_sockets_zerocopy arg;
	struct cut cut = eof;
	struct receiver r;
	int calls = 0;

	accept_queued(&r, opts, type, &cut);
	wait_event(&r, POLLRDHUP);
	while (r.got < r.cut.total) {
		arg = take(&r, 5);
		check(arg.bytes > 0);
		check_eq(!!(arg.status & VM_SOCKETS_ZEROCOPY_FINISHED),
			 r.got == r.cut.total);
		calls++;
	}
	check(calls > 2);

	wait_event(&r, POLLRDHUP);
	arg = take(&r, PAGES);
	check_eq(arg.headers, 0);
	check_eq(arg.status, VM_SOCKETS_ZEROCOPY_FINISHED);
	take_short(&r);
	check_eq(take_recv(&r, 100, 0), 0);
	control_writeln("DONE");
	close_receiver(&r);
}

void test_stream_zcrx_eof_client(const struct test_opts *opts)
{
	eof_client(opts, SOCK_STREAM);
}

void test_stream_zcrx_eof_server(const struct test_opts *opts)
{
	eof_server(opts, SOCK_STREAM);
}

void test_seqpacket_zcrx_eof_client(const struct test_opts *opts)
{
	eof_client(opts, SOCK_SEQPACKET);
}

void test_seqpacket_zcrx_eof_server(const struct test_opts *opts)
{
	eof_server(opts, SOCK_SEQPACKET);
}

/* ---------- data that came before ---------- */

static const size_t late_sizes[] = { 56, 4096, 40000, 300, 5000, 65536 };
static const struct cut late = {
	.sizes = late_sizes,
	.count = ARRAY_SIZE(late_sizes),
};

static void late_client(const struct test_opts *opts, int type)
{
	struct cut cut = late;

	send_and_wait(opts, type, &cut);
}

static void late_server(const struct test_opts *opts, int type)
{
	struct cut cut = late;
	struct receiver r;

	accept_client(&r, opts, type);
	recv_choice();
	expect_pieces(&r, &cut);
	control_writeln("SEND");
	wait_queued(&r, r.cut.total);

	/* A part of it is received before the socket opts in. */
	check_eq(take_recv(&r, 56, 0), 56);
	if (type == SOCK_STREAM)
		check_eq(take_recv(&r, 1000, 0), 1000);
	opt_in_and_map(&r);
	r.quiet = true;
	while (r.got < r.cut.total)
		check(take(&r, PAGES).bytes > 0);
	control_writeln("DONE");
	close_receiver(&r);
}

void test_stream_zcrx_late_client(const struct test_opts *opts)
{
	late_client(opts, SOCK_STREAM);
}

void test_stream_zcrx_late_server(const struct test_opts *opts)
{
	late_server(opts, SOCK_STREAM);
}

void test_seqpacket_zcrx_late_client(const struct test_opts *opts)
{
	late_client(opts, SOCK_SEQPACKET);
}

void test_seqpacket_zcrx_late_server(const struct test_opts *opts)
{
	late_server(opts, SOCK_SEQPACKET);
}

/* ---------- a sender whose pages are its own ---------- */

/* 100 bytes in the middle of a page, then whole pages. */
static const size_t msgzcopy_sizes[] = { 100, 8 * 4096 };
static const size_t msgzcopy_offset[] = { 50, 0 };
static const struct cut msgzcopy = {
	.sizes = msgzcopy_sizes,
	.count = ARRAY_SIZE(msgzcopy_sizes),
};

static void msgzcopy_client(const struct test_opts *opts, int type)
{
	int fd = client_connect(opts, type), memfd;
	unsigned long long pos = 0;
	size_t size = 8 * 4096, i;
	char *p;

	send_choice(0);
	enable_so_zerocopy_check(fd);
	memfd = syscall(__NR_memfd_create, "vsock_test", 0);
	check(memfd >= 0);
	check_eq(ftruncate(memfd, size), 0);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	check(p != MAP_FAILED);

	for (i = 0; i < ARRAY_SIZE(msgzcopy_sizes); i++) {
		struct pollfd pfd = { .fd = fd };

		memset(p, '#', size);
		memcpy(p + msgzcopy_offset[i], at(pos), msgzcopy_sizes[i]);
		control_expectln("SEND");
		send_buf(fd, p + msgzcopy_offset[i], msgzcopy_sizes[i],
			 MSG_ZEROCOPY, msgzcopy_sizes[i]);
		pos += msgzcopy_sizes[i];

		/* It is ours again: what was received must not change. */
		check_eq(poll(&pfd, 1, TIMEOUT * 1000), 1);
		check(pfd.revents & POLLERR);
		vsock_recv_completion(fd, NULL);
		memset(p, '!', size);
		control_writeln("CHANGED");
	}
	control_expectln("DONE");
	check_eq(ftruncate(memfd, 0), 0);
	control_writeln("TRUNCATED");
	close(memfd);
	close(fd);
}

static void msgzcopy_server(const struct test_opts *opts, int type)
{
	struct cut cut = msgzcopy;
	struct receiver r;
	size_t i;

	accept_client(&r, opts, type);
	recv_choice();
	opt_in_and_map(&r);
	expect_pieces(&r, &cut);
	for (i = 0; i < ARRAY_SIZE(msgzcopy_sizes); i++) {
		unsigned long long pos = r.got;
		size_t len = msgzcopy_sizes[i];
		struct vm_sockets_zerocopy arg;

		control_writeln("SEND");
		wait_queued(&r, len);
		arg = take(&r, PAGES);
		check_eq(arg.bytes, len);
		/* Over loopback the sender's pages themselves arrive. */
		if (opts->peer_cid == VMADDR_CID_LOCAL)
			check_eq(arg.copied, len);
		control_expectln("CHANGED");
		if (arg.headers == 1) {
			check(!memcmp(r.p + r.page, at(pos), len));
			check(is_zero(r.p + r.page + len,
				      -len & (r.page - 1)));
		}
	}
	control_writeln("DONE");
	control_expectln("TRUNCATED");
	close_receiver(&r);
}

void test_stream_zcrx_msgzcopy_client(const struct test_opts *opts)
{
	msgzcopy_client(opts, SOCK_STREAM);
}

void test_stream_zcrx_msgzcopy_server(const struct test_opts *opts)
{
	msgzcopy_server(opts, SOCK_STREAM);
}

void test_seqpacket_zcrx_msgzcopy_client(const struct test_opts *opts)
{
	msgzcopy_client(opts, SOCK_SEQPACKET);
}

void test_seqpacket_zcrx_msgzcopy_server(const struct test_opts *opts)
{
	msgzcopy_server(opts, SOCK_SEQPACKET);
}

/* ---------- messages of any size ---------- */

static const size_t message_sizes[] = {
	1, 4096, 4097, 65536, 300000, 4095, 1, 1, 65537, 4096, 8192, 300000, 2,
};

static const struct cut messages = {
	.sizes = message_sizes,
	.count = ARRAY_SIZE(message_sizes),
	.records = true,
};

/* A message must fit into the buffers of both ends. */
static void enlarge_buffer(int fd)
{
	setsockopt_ull_check(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_MAX_SIZE,
			     1024 * 1024, "SO_VM_SOCKETS_BUFFER_MAX_SIZE");
	setsockopt_ull_check(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_SIZE,
			     1024 * 1024, "SO_VM_SOCKETS_BUFFER_SIZE");
}

void test_seqpacket_zcrx_sizes_client(const struct test_opts *opts)
{
	int fd = client_connect(opts, SOCK_SEQPACKET), i;
	struct cut cut = messages;

	enlarge_buffer(fd);
	send_choice(0);
	for (i = 0; i < 4; i++) {
		control_expectln("SEND");
		/* The server's buffer is larger now, and its answer says so. */
		recv_byte(fd, 1, 0);
		send_pieces(fd, &cut);
	}
	control_expectln("DONE");
	close(fd);
}

void test_seqpacket_zcrx_sizes_server(const struct test_opts *opts)
{
	struct cut cut = messages;
	struct receiver r;
	__u32 state;
	int i;

	accept_client(&r, opts, SOCK_SEQPACKET);
	enlarge_buffer(r.fd);
	recv_choice();
	state = ~seed;
	opt_in_and_map(&r);
	for (i = 0; i < 4; i++) {
		r.got = 0;
		expect_pieces(&r, &cut);
		control_writeln("SEND");
		send_byte(r.fd, 1, 0);
		wait_queued(&r, r.cut.total);
		r.quiet = true;
		while (r.got < r.cut.total)
			check(take(&r, 2 + rnd(&state, PAGES - 1)).bytes > 0);
	}
	control_writeln("DONE");
	close_receiver(&r);
}
