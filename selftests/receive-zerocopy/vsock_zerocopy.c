// SPDX-License-Identifier: GPL-2.0-only
/*
 * Zero-copy receive on AF_VSOCK: SO_VM_SOCKETS_ZEROCOPY.
 *
 * A program opts in, maps its socket, and each getsockopt() fills the mapping:
 * the first page is an array of headers, and what a header describes begins on
 * the next page that no header before it has used.
 *
 * After each successful call take() looks at everything that holds for any
 * call: the bytes follow those received before, the rest of the first page and
 * the end of each last page are zero, the counts in the argument agree with
 * the headers, SIOCINQ agrees with both, and what is not filled is a hole.
 * After each error the whole stream must still come out of recv().
 *
 * Everything runs over the loopback transport.  VSOCK_ZEROCOPY_MB sets the
 * length of the long transfers, VSOCK_ZEROCOPY_SEED the random choices.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/bpf.h>
#include <linux/errqueue.h>
#include <linux/sockios.h>
#include <linux/virtio_vsock.h>
#include <linux/vm_sockets.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <io_uring/mini_liburing.h>
#include "kselftest_harness.h"

#ifndef AF_VSOCK
#define AF_VSOCK	40
#endif
#ifndef SOL_VSOCK
#define SOL_VSOCK	287
#endif
#ifndef VSOCK_RECVERR
#define VSOCK_RECVERR	1
#endif
#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY	0x4000000
#endif
#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY	60
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

#define DEADLINE_MS	5000
#define MAX_HEADERS	(page / sizeof(struct virtio_vsock_usr_hdr))
#define ALL_FLAGS	(VIRTIO_VSOCK_SEQ_EOM | VIRTIO_VSOCK_SEQ_EOR | \
			 VIRTIO_VSOCK_USR_COPIED)
#define BIG_BUFFER	(1024 * 1024)

/* Of most tests: the headers and up to 63 pages of data. */
#define PAGES		64

static size_t page;

/*
 * What is sent: byte n of a connection is byte n % PERIOD of this, never zero.
 * The period is no multiple of anything that a packet or a page could have.
 */
#define PERIOD		65521
#define SLICE		(512 * 1024)
static unsigned char pattern[PERIOD + SLICE];

static const unsigned char *at(__u64 pos)
{
	return pattern + pos % PERIOD;
}

static void init_pattern(void)
{
	__u32 x = 1;
	size_t i;

	page = sysconf(_SC_PAGESIZE);
	for (i = 0; i < sizeof(pattern); i++) {
		x = i % PERIOD ? x : 1;
		x = x * 1664525 + 1013904223;
		pattern[i] = 1 + (x >> 24) % 255;
	}
}

static bool is_pattern(const void *buf, size_t len, __u64 pos)
{
	while (len) {
		size_t n = len < SLICE ? len : SLICE;

		if (memcmp(buf, at(pos), n))
			return false;
		buf = (const char *)buf + n;
		pos += n;
		len -= n;
	}

	return true;
}

static bool is_zero(const void *buf, size_t len)
{
	const char *c = buf;

	while (len--)
		if (*c++)
			return false;

	return true;
}

static __u32 rnd(__u32 *state, __u32 limit)
{
	*state = *state * 1664525 + 1013904223;

	return (__u64)*state * limit >> 32;
}

static unsigned long env(const char *name, unsigned long otherwise)
{
	const char *value = getenv(name);

	return value && *value ? strtoul(value, NULL, 0) : otherwise;
}

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

/* ---------- sockets ---------- */

static int queued(int fd)
{
	int bytes = -1;

	if (ioctl(fd, SIOCINQ, &bytes))
		return -errno;

	return bytes;
}

/* The loopback transport delivers from a work item: wait until it has. */
static bool wait_queued(int fd, int bytes)
{
	long long end = now_ms() + DEADLINE_MS;

	while (queued(fd) != bytes) {
		if (now_ms() > end)
			return false;
		sched_yield();
	}

	return true;
}

static short events(int fd, int timeout)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN | POLLRDHUP };

	return poll(&pfd, 1, timeout) == 1 ? pfd.revents : 0;
}

static bool wait_event(int fd, short event)
{
	struct pollfd pfd = { .fd = fd, .events = event };

	return poll(&pfd, 1, DEADLINE_MS) == 1 && (pfd.revents & event);
}

static int opt_in(int fd, int val)
{
	return setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY, &val,
			  sizeof(val));
}

static int set_buffer_size(int fd, unsigned long long size)
{
	return setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_MAX_SIZE, &size,
			  sizeof(size)) ?:
	       setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_SIZE, &size,
			  sizeof(size));
}

static int listen_local(int type, struct sockaddr_vm *addr)
{
	socklen_t len = sizeof(*addr);
	int fd;

	memset(addr, 0, sizeof(*addr));
	addr->svm_family = AF_VSOCK;
	addr->svm_cid = VMADDR_CID_LOCAL;
	addr->svm_port = VMADDR_PORT_ANY;

	fd = socket(AF_VSOCK, type, 0);
	if (fd < 0)
		return -1;

	if (bind(fd, (struct sockaddr *)addr, sizeof(*addr)) ||
	    getsockname(fd, (struct sockaddr *)addr, &len) ||
	    listen(fd, 4)) {
		close(fd);
		return -1;
	}

	return fd;
}

/* Both ends get this buffer when @buffer is not 0. */
static bool connect_pair(int type, int listener, const struct sockaddr_vm *addr,
			 unsigned long long buffer, int *snd, int *rcv)
{
	*rcv = -1;
	*snd = socket(AF_VSOCK, type, 0);
	if (*snd < 0)
		return false;

	if (buffer && (set_buffer_size(listener, buffer) ||
		       set_buffer_size(*snd, buffer)))
		return false;

	if (connect(*snd, (const struct sockaddr *)addr, sizeof(*addr)))
		return false;
	*rcv = accept(listener, NULL, NULL);

	return *rcv >= 0;
}

/* Neither the loopback transport nor vsock itself is built in everywhere. */
static bool no_loopback(int err)
{
	return err == EAFNOSUPPORT || err == EADDRNOTAVAIL || err == ENODEV ||
	       err == ENETUNREACH || err == ESOCKTNOSUPPORT;
}

/* ---------- reading memory that may not be there ---------- */

static sigjmp_buf fault_env;

static void on_fault(int sig)
{
	siglongjmp(fault_env, sig);
}

static void catch_faults(void)
{
	struct sigaction sa = { .sa_handler = on_fault };

	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGSEGV, &sa, NULL);
}

/* Copies, and returns the signal that this raised, 0 for none. */
static int try_copy(void *to, const void *from, size_t len)
{
	int sig = sigsetjmp(fault_env, 1);

	if (!sig)
		memcpy(to, from, len);

	return sig;
}

static int touch(const void *p)
{
	char c;

	return try_copy(&c, p, 1);
}

/* ---------- the option ---------- */

static char *map(int fd, size_t pages)
{
	return mmap(NULL, pages * page, PROT_READ, MAP_SHARED, fd, 0);
}

static bool map_at(char *p, int fd, size_t pages)
{
	return mmap(p, pages * page, PROT_READ, MAP_SHARED | MAP_FIXED, fd,
		    0) == p;
}

static struct vm_sockets_zerocopy range(const void *p, size_t pages)
{
	return (struct vm_sockets_zerocopy) {
		.address = (uintptr_t)p,
		.length = pages * page,
	};
}

static int fill(int fd, void *arg, socklen_t *len)
{
	return getsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY, arg, len);
}

static int fill_range(int fd, struct vm_sockets_zerocopy *arg)
{
	socklen_t len = sizeof(*arg);

	return fill(fd, arg, &len);
}

static int fill_short(int fd, const void *p)
{
	__u64 address = (uintptr_t)p;
	socklen_t len = sizeof(address);

	return fill(fd, &address, &len);
}

/* ---------- what was sent and what must come ---------- */

struct message {
	__u64 end;
	bool eor;
};

struct flow {
	int type;
	__u64 sent;
	__u64 got;
	struct message *messages;	/* of SOCK_SEQPACKET */
	size_t count;			/* sent */
	size_t next;			/* not yet received, or not all of it */
	bool busy;			/* another thread sends */
	int error;			/* pending on the receiver */
};

static bool add_message(struct flow *flow, size_t len, int flags)
{
	flow->sent += len;
	if (flow->type == SOCK_STREAM || !len)
		return true;

	if (!(flow->count & (flow->count + 1))) {
		struct message *more = realloc(flow->messages,
				2 * (flow->count + 1) * sizeof(*more));

		if (!more)
			return false;
		flow->messages = more;
	}
	flow->messages[flow->count].end = flow->sent;
	flow->messages[flow->count++].eor = flags & MSG_EOR;

	return true;
}

static bool send_next(int fd, struct flow *flow, size_t len, int flags)
{
	return send(fd, at(flow->sent), len, flags) == (ssize_t)len &&
	       add_message(flow, len, flags);
}

/* One header, or what one recv() gave. */
static void account(struct __test_metadata *_metadata, struct flow *flow,
		    size_t len, bool eom, bool eor)
{
	struct message *message = &flow->messages[flow->next];

	flow->got += len;
	ASSERT_LE(flow->got, flow->sent);
	if (flow->type == SOCK_STREAM) {
		ASSERT_FALSE(eom || eor);
		return;
	}

	ASSERT_LT(flow->next, flow->count);
	ASSERT_LE(flow->got, message->end);
	ASSERT_EQ(flow->got == message->end, eom);
	ASSERT_EQ(eom && message->eor, eor);
	if (eom)
		flow->next++;
}

/*
 * Looks at the pages that a call has filled.  Returns the number of pages that
 * hold something, the one with the headers included.
 */
static size_t look(struct __test_metadata *_metadata, struct flow *flow,
		   const char *p, size_t pages,
		   struct vm_sockets_zerocopy *sum)
{
	const struct virtio_vsock_usr_hdr *hdr = (const void *)p;
	size_t used = 1, i;

	memset(sum, 0, sizeof(*sum));
	for (i = 0; i < MAX_HEADERS && (hdr[i].len || hdr[i].flags); i++) {
		size_t len = hdr[i].len, rest = -len & (page - 1);
		__u32 flags = hdr[i].flags;

		ASSERT_EQ(0, flags & ~ALL_FLAGS);
		ASSERT_LE(used + (len + rest) / page, pages);
		/* Nothing of length 0 can be sent over this transport. */
		ASSERT_LT(0, len);
		ASSERT_TRUE(is_pattern(p + used * page, len, flow->got))
			TH_LOG("header %zu, %zu bytes at %llu", i, len,
			       (unsigned long long)flow->got);
		ASSERT_TRUE(is_zero(p + used * page + len, rest))
			TH_LOG("the tail of header %zu, %zu bytes", i, len);
		account(_metadata, flow, len, flags & VIRTIO_VSOCK_SEQ_EOM,
			flags & VIRTIO_VSOCK_SEQ_EOR);

		used += (len + rest) / page;
		sum->headers++;
		sum->bytes += len;
		if (flags & VIRTIO_VSOCK_USR_COPIED)
			sum->copied += len;
	}
	ASSERT_TRUE(is_zero(&hdr[i], page - i * sizeof(*hdr)));

	return used;
}

/* One call with @arg, and all that holds after any.  Returns as look(). */
static size_t take_arg(struct __test_metadata *_metadata, int fd,
		       struct flow *flow, struct vm_sockets_zerocopy *arg)
{
	const char *p = (const char *)(uintptr_t)arg->address;
	struct vm_sockets_zerocopy in = *arg, sum;
	size_t pages = arg->length / page, used;
	socklen_t len = sizeof(*arg);
	int left;

	ASSERT_EQ(0, fill(fd, arg, &len)) TH_LOG("%s", strerror(errno));
	ASSERT_EQ(sizeof(*arg), len);
	ASSERT_EQ(in.address, arg->address);
	ASSERT_EQ(in.length, arg->length);
	ASSERT_EQ(in.flags, arg->flags);
	ASSERT_EQ(0, arg->reserved);
	ASSERT_EQ(0, arg->reserved2);

	used = look(_metadata, flow, p, pages, &sum);
	ASSERT_EQ(sum.headers, arg->headers);
	ASSERT_EQ(sum.bytes, arg->bytes);
	ASSERT_EQ(sum.copied, arg->copied);
	ASSERT_EQ(flow->error, arg->error);
	ASSERT_EQ(0, arg->status & ~(VM_SOCKETS_ZEROCOPY_FINISHED |
				     VM_SOCKETS_ZEROCOPY_MORE));
	if (flow->busy)
		return used;

	left = flow->sent - flow->got;
	ASSERT_EQ(left, queued(fd));
	ASSERT_EQ(left, arg->queued);
	ASSERT_EQ(!!left, !!(arg->status & VM_SOCKETS_ZEROCOPY_MORE));
	if (used < pages)
		ASSERT_EQ(SIGBUS, touch(p + used * page));

	return used;
}

static struct vm_sockets_zerocopy take(struct __test_metadata *_metadata,
				       int fd, struct flow *flow,
				       const void *p, size_t pages)
{
	struct vm_sockets_zerocopy arg = range(p, pages);

	take_arg(_metadata, fd, flow, &arg);

	return arg;
}

/* One receive that never blocks, up to @len bytes; returns what came. */
static ssize_t take_recv(struct __test_metadata *_metadata, int fd,
			 struct flow *flow, size_t len, int flags)
{
	static char buf[SLICE];
	struct iovec iov = { .iov_base = buf, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	__u64 end = flow->next < flow->count ?
		       flow->messages[flow->next].end : 0;
	ssize_t ret;

	/* The copy to the user faults in some of the calls. */
	madvise(buf + page, sizeof(buf) - 2 * page, MADV_DONTNEED);
	ret = recvmsg(fd, &msg, flags | MSG_DONTWAIT);
	if (ret < 0 && errno == EAGAIN)
		return -1;
	ASSERT_LE(0, ret) TH_LOG("%s", strerror(errno));
	if (!ret)
		return 0;

	ASSERT_TRUE(is_pattern(buf, ret, flow->got))
		TH_LOG("recv() of %zd bytes at %llu", ret,
		       (unsigned long long)flow->got);
	if (flow->type != SOCK_STREAM)
		ASSERT_EQ(len < end - flow->got, !!(msg.msg_flags & MSG_TRUNC));
	if (flags & MSG_PEEK)
		return ret;

	if (flow->type != SOCK_STREAM && len < end - flow->got) {
		/* The rest of a message that is too long is gone. */
		flow->got = end;
		flow->next++;
		return ret;
	}
	account(_metadata, flow, ret, flow->type != SOCK_STREAM,
		msg.msg_flags & MSG_EOR);

	return ret;
}

/* recv() gives all that was sent and not yet received. */
static void recv_all(struct __test_metadata *_metadata, int fd,
		     struct flow *flow)
{
	ASSERT_TRUE(wait_queued(fd, flow->sent - flow->got));
	while (flow->got < flow->sent)
		ASSERT_LT(0, take_recv(_metadata, fd, flow, SLICE, 0));
	ASSERT_EQ(0, queued(fd));
}

/* ---------- the fixture ---------- */

FIXTURE(vsock_zerocopy)
{
	struct sockaddr_vm addr;
	struct flow flow;
	int listener;
	int snd;
	int rcv;
	char *p;
};

FIXTURE_VARIANT(vsock_zerocopy)
{
	int type;
};

FIXTURE_VARIANT_ADD(vsock_zerocopy, stream)
{
	.type = SOCK_STREAM,
};

FIXTURE_VARIANT_ADD(vsock_zerocopy, seqpacket)
{
	.type = SOCK_SEQPACKET,
};

FIXTURE_SETUP(vsock_zerocopy)
{
	init_pattern();
	catch_faults();
	self->snd = -1;
	self->rcv = -1;
	self->p = MAP_FAILED;
	self->flow.type = variant->type;

	self->listener = listen_local(variant->type, &self->addr);
	if (self->listener < 0 && no_loopback(errno))
		SKIP(return, "no vsock loopback: %s", strerror(errno));
	ASSERT_LE(0, self->listener);
	ASSERT_TRUE(connect_pair(variant->type, self->listener, &self->addr, 0,
				 &self->snd, &self->rcv));
}

FIXTURE_TEARDOWN(vsock_zerocopy)
{
	close(self->snd);
	close(self->rcv);
	close(self->listener);
	free(self->flow.messages);
}

#define STREAM		(variant->type == SOCK_STREAM)
#define MESSAGES	(variant->type == SOCK_SEQPACKET)

#define SEND(len) \
	ASSERT_TRUE(send_next(self->snd, &self->flow, len, MSG_NOSIGNAL))
#define ARRIVED() \
	ASSERT_TRUE(wait_queued(self->rcv, self->flow.sent - self->flow.got))
#define TAKE(p, pages)	take(_metadata, self->rcv, &self->flow, p, pages)
#define RECV(len, flags) \
	take_recv(_metadata, self->rcv, &self->flow, len, flags)
#define RECV_ALL()	recv_all(_metadata, self->rcv, &self->flow)

/* Opt in and map; most tests begin so. */
#define MAP(pages) do { \
	ASSERT_EQ(0, opt_in(self->rcv, 1)); \
	self->p = map(self->rcv, pages); \
	ASSERT_TRUE(self->p != MAP_FAILED); \
} while (0)

/* Start again with a connection whose ends have larger buffers. */
#define RECONNECT(buffer) do { \
	close(self->snd); \
	close(self->rcv); \
	ASSERT_TRUE(connect_pair(variant->type, self->listener, &self->addr, \
				 buffer, &self->snd, &self->rcv)); \
} while (0)

/* ---------- setsockopt() and mmap() ---------- */

TEST_F(vsock_zerocopy, setsockopt_takes_0_and_1)
{
	EXPECT_EQ(0, opt_in(self->rcv, 1));
	EXPECT_EQ(0, opt_in(self->rcv, 1));
	EXPECT_EQ(0, opt_in(self->rcv, 0));
	EXPECT_EQ(0, opt_in(self->listener, 1));
}

TEST_F(vsock_zerocopy, setsockopt_refuses_other_values)
{
	MAP(PAGES);
	EXPECT_EQ(-1, opt_in(self->rcv, 2));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, opt_in(self->rcv, -1));
	EXPECT_EQ(EINVAL, errno);

	/* It stays as it was. */
	SEND(100);
	ARRIVED();
	EXPECT_EQ(100, TAKE(self->p, PAGES).bytes);
}

TEST_F(vsock_zerocopy, setsockopt_refuses_short_value)
{
	socklen_t len;
	int val = 0;

	MAP(PAGES);
	for (len = 0; len < sizeof(val); len++) {
		EXPECT_EQ(-1, setsockopt(self->rcv, AF_VSOCK,
					 SO_VM_SOCKETS_ZEROCOPY, &val, len));
		EXPECT_EQ(EINVAL, errno);
	}

	SEND(100);
	ARRIVED();
	EXPECT_EQ(100, TAKE(self->p, PAGES).bytes);
}

TEST_F(vsock_zerocopy, off_by_default_eacces)
{
	struct vm_sockets_zerocopy arg;

	SEND(5000);
	ARRIVED();
	/* Whether a socket that has not opted in can be mapped is not said. */
	self->p = map(self->rcv, PAGES);
	arg = range(self->p, PAGES);
	EXPECT_EQ(-1, fill_range(self->rcv, &arg));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-1, fill_short(self->rcv, self->p));
	EXPECT_EQ(EACCES, errno);
	RECV_ALL();
}

TEST_F(vsock_zerocopy, opted_out_eacces)
{
	struct vm_sockets_zerocopy arg;

	MAP(PAGES);
	SEND(5000);
	SEND(300);
	ARRIVED();
	ASSERT_EQ(0, opt_in(self->rcv, 0));
	arg = range(self->p, PAGES);
	EXPECT_EQ(-1, fill_range(self->rcv, &arg));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-1, fill_short(self->rcv, self->p));
	EXPECT_EQ(EACCES, errno);
	RECV_ALL();

	/* And in again, with the same mapping. */
	ASSERT_EQ(0, opt_in(self->rcv, 1));
	SEND(5000);
	ARRIVED();
	EXPECT_EQ(5000, TAKE(self->p, PAGES).bytes);
}

TEST_F(vsock_zerocopy, accepted_socket_inherits)
{
	ASSERT_EQ(0, opt_in(self->listener, 1));
	RECONNECT(0);
	self->p = map(self->rcv, PAGES);
	ASSERT_TRUE(self->p != MAP_FAILED);
	SEND(5000);
	ARRIVED();
	EXPECT_EQ(5000, TAKE(self->p, PAGES).bytes);
}

TEST_F(vsock_zerocopy, connecting_socket_opts_in_before)
{
	int fd = socket(AF_VSOCK, variant->type, 0), snd;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, opt_in(fd, 1));
	self->p = map(fd, PAGES);
	ASSERT_TRUE(self->p != MAP_FAILED);
	ASSERT_EQ(0, connect(fd, (struct sockaddr *)&self->addr,
			     sizeof(self->addr)));
	snd = accept(self->listener, NULL, NULL);
	ASSERT_LE(0, snd);
	ASSERT_TRUE(send_next(snd, &self->flow, 5000, 0));
	ASSERT_TRUE(wait_queued(fd, 5000));
	EXPECT_EQ(5000, take(_metadata, fd, &self->flow, self->p, PAGES).bytes);
	close(snd);
	close(fd);
}

TEST_F(vsock_zerocopy, unconnected_enotconn)
{
	int fd = socket(AF_VSOCK, variant->type, 0);
	struct vm_sockets_zerocopy arg;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, opt_in(fd, 1));
	self->p = map(fd, PAGES);
	ASSERT_TRUE(self->p != MAP_FAILED);
	arg = range(self->p, PAGES);
	EXPECT_EQ(-1, fill_range(fd, &arg));
	EXPECT_EQ(ENOTCONN, errno);
	EXPECT_EQ(-1, fill_short(fd, self->p));
	EXPECT_EQ(ENOTCONN, errno);
	close(fd);
}

TEST_F(vsock_zerocopy, refused_connection_enotconn)
{
	struct sockaddr_vm nobody = self->addr;
	struct vm_sockets_zerocopy arg;
	int fd;

	/* The port of a listener that is gone. */
	fd = listen_local(variant->type, &nobody);
	ASSERT_LE(0, fd);
	close(fd);

	fd = socket(AF_VSOCK, variant->type, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, opt_in(fd, 1));
	ASSERT_EQ(-1, connect(fd, (struct sockaddr *)&nobody, sizeof(nobody)));
	ASSERT_EQ(ECONNRESET, errno);
	self->p = map(fd, PAGES);
	ASSERT_TRUE(self->p != MAP_FAILED);
	arg = range(self->p, PAGES);
	EXPECT_EQ(-1, fill_range(fd, &arg));
	EXPECT_EQ(ENOTCONN, errno);
	close(fd);
}

TEST_F(vsock_zerocopy, listening_enotconn)
{
	struct vm_sockets_zerocopy arg;

	ASSERT_EQ(0, opt_in(self->listener, 1));
	self->p = map(self->listener, PAGES);
	ASSERT_TRUE(self->p != MAP_FAILED);
	arg = range(self->p, PAGES);
	EXPECT_EQ(-1, fill_range(self->listener, &arg));
	EXPECT_EQ(ENOTCONN, errno);
	EXPECT_EQ(-1, fill_short(self->listener, self->p));
	EXPECT_EQ(ENOTCONN, errno);
}

TEST_F(vsock_zerocopy, mmap_write_or_exec_eperm)
{
	static const int prot[] = {
		PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC,
		PROT_EXEC, PROT_READ | PROT_WRITE | PROT_EXEC,
	};
	size_t i;

	ASSERT_EQ(0, opt_in(self->rcv, 1));
	for (i = 0; i < ARRAY_SIZE(prot); i++) {
		EXPECT_TRUE(mmap(NULL, PAGES * page, prot[i], MAP_SHARED,
				 self->rcv, 0) == MAP_FAILED);
		EXPECT_EQ(EPERM, errno);
	}
}

TEST_F(vsock_zerocopy, mprotect_write_or_exec_eacces)
{
	MAP(PAGES);
	SEND(40000);
	ARRIVED();
	EXPECT_EQ(40000, TAKE(self->p, PAGES).bytes);

	EXPECT_EQ(-1, mprotect(self->p, PAGES * page, PROT_READ | PROT_WRITE));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-1, mprotect(self->p, PAGES * page, PROT_READ | PROT_EXEC));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-1, mprotect(self->p + page, page, PROT_WRITE));
	EXPECT_EQ(EACCES, errno);
	EXPECT_TRUE(is_pattern(self->p + page, 40000, 0));
}

/* A debugger's write must not reach the pages, nor a copy of them. */
TEST_F(vsock_zerocopy, write_through_proc_mem_fails)
{
	const int kinds[] = { MAP_SHARED, MAP_PRIVATE };
	struct vm_sockets_zerocopy arg;
	__u64 start;
	size_t i;
	char *p;
	int mem;

	ASSERT_EQ(0, opt_in(self->rcv, 1));
	mem = open("/proc/self/mem", O_RDWR);
	ASSERT_LE(0, mem);
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		p = mmap(NULL, PAGES * page, PROT_READ, kinds[i], self->rcv, 0);
		/* A private mapping may be refused. */
		if (p == MAP_FAILED && kinds[i] == MAP_PRIVATE)
			continue;
		ASSERT_TRUE(p != MAP_FAILED);
		start = self->flow.sent;
		SEND(40000);
		ARRIVED();
		arg = range(p, PAGES);
		take_arg(_metadata, self->rcv, &self->flow, &arg);
		EXPECT_EQ(40000, arg.bytes);

		EXPECT_EQ(-1, pwrite(mem, "x", 1, (uintptr_t)p));
		EXPECT_EQ(-1, pwrite(mem, "x", 1, (uintptr_t)p + page));
		EXPECT_EQ(-1, pwrite(mem, "x", 1, (uintptr_t)p + 20 * page));
		EXPECT_TRUE(is_pattern(p + page, 40000, start));
	}
	close(mem);
}

/* ---------- errors: nothing is lost ---------- */

#define FILL_FAILS(err, ...) do { \
	struct vm_sockets_zerocopy __arg = range(__VA_ARGS__); \
	EXPECT_EQ(-1, fill_range(self->rcv, &__arg)); \
	EXPECT_EQ(err, errno); \
	EXPECT_EQ(0, __arg.bytes + __arg.headers); \
} while (0)

#define SHORT_FAILS(err, p) do { \
	EXPECT_EQ(-1, fill_short(self->rcv, p)); \
	EXPECT_EQ(err, errno); \
} while (0)

/* Some of everything: small, a page, more, and what is mapped, not copied. */
#define SOME	(56 + 4096 + 8200 + 40000 + 300)
#define SEND_SOME() do { \
	SEND(56); \
	SEND(4096); \
	SEND(8200); \
	SEND(40000); \
	SEND(300); \
	ARRIVED(); \
} while (0)

TEST_F(vsock_zerocopy, anonymous_memory_einval)
{
	char *p = mmap(NULL, PAGES * page, PROT_READ,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *shared = mmap(NULL, PAGES * page, PROT_READ,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT_TRUE(p != MAP_FAILED);
	ASSERT_TRUE(shared != MAP_FAILED);
	MAP(PAGES);
	SEND_SOME();
	FILL_FAILS(EINVAL, p, PAGES);
	SHORT_FAILS(EINVAL, p);
	FILL_FAILS(EINVAL, shared, PAGES);
	SHORT_FAILS(EINVAL, shared);
	EXPECT_TRUE(is_zero(p, PAGES * page));
	RECV_ALL();
}

TEST_F(vsock_zerocopy, another_sockets_mapping_einval)
{
	char *other;

	MAP(PAGES);
	ASSERT_EQ(0, opt_in(self->snd, 1));
	other = map(self->snd, PAGES);
	ASSERT_TRUE(other != MAP_FAILED);
	SEND_SOME();
	FILL_FAILS(EINVAL, other, PAGES);
	SHORT_FAILS(EINVAL, other);
	EXPECT_EQ(SIGBUS, touch(other));
	RECV_ALL();
}

TEST_F(vsock_zerocopy, unmapped_address_einval)
{
	MAP(PAGES);
	SEND_SOME();
	ASSERT_EQ(0, munmap(self->p, PAGES * page));
	FILL_FAILS(EINVAL, self->p, PAGES);
	SHORT_FAILS(EINVAL, self->p);
	FILL_FAILS(EINVAL, NULL, PAGES);
	SHORT_FAILS(EINVAL, NULL);
	FILL_FAILS(EINVAL, (void *)-page, PAGES);
	FILL_FAILS(EINVAL, (void *)(-page * PAGES), PAGES);
	SHORT_FAILS(EINVAL, (void *)-page);
	RECV_ALL();
}

/* An address that only a 64-bit program could have, by its low half. */
TEST_F(vsock_zerocopy, high_bits_of_address_einval)
{
	struct vm_sockets_zerocopy arg;
	__u64 address;
	socklen_t len;

	MAP(PAGES);
	SEND_SOME();
	arg = range(self->p, PAGES);
	arg.address |= 1ULL << 63;
	EXPECT_EQ(-1, fill_range(self->rcv, &arg));
	EXPECT_EQ(EINVAL, errno);
	arg.address = (uintptr_t)self->p ^ 1ULL << 40;
	EXPECT_EQ(-1, fill_range(self->rcv, &arg));
	EXPECT_EQ(EINVAL, errno);
	address = (uintptr_t)self->p ^ 1ULL << 40;
	len = sizeof(address);
	EXPECT_EQ(-1, fill(self->rcv, &address, &len));
	EXPECT_EQ(EINVAL, errno);
	RECV_ALL();
}

TEST_F(vsock_zerocopy, not_aligned_einval)
{
	struct vm_sockets_zerocopy arg;

	MAP(PAGES);
	SEND_SOME();
	FILL_FAILS(EINVAL, self->p + 1, 4);
	FILL_FAILS(EINVAL, self->p + page - 1, 4);
	FILL_FAILS(EINVAL, self->p + 8, 4);
	SHORT_FAILS(EINVAL, self->p + 1);
	SHORT_FAILS(EINVAL, self->p + 8);

	arg = range(self->p, 4);
	arg.length += 1;
	EXPECT_EQ(-1, fill_range(self->rcv, &arg));
	EXPECT_EQ(EINVAL, errno);
	arg.length = 4 * page - 8;
	EXPECT_EQ(-1, fill_range(self->rcv, &arg));
	EXPECT_EQ(EINVAL, errno);
	RECV_ALL();
}

TEST_F(vsock_zerocopy, under_two_pages_einval)
{
	char *one;

	MAP(PAGES);
	SEND_SOME();
	FILL_FAILS(EINVAL, self->p, 0);
	FILL_FAILS(EINVAL, self->p, 1);
	one = map(self->rcv, 1);
	if (one != MAP_FAILED) {
		FILL_FAILS(EINVAL, one, 1);
		SHORT_FAILS(EINVAL, one);
		EXPECT_EQ(SIGBUS, touch(one));
	}
	RECV_ALL();
}

TEST_F(vsock_zerocopy, beyond_the_mapping_einval)
{
	struct vm_sockets_zerocopy arg;
	char *room;

	ASSERT_EQ(0, opt_in(self->rcv, 1));
	SEND_SOME();

	/* Two mappings of the socket without a gap, none before and behind. */
	room = mmap(NULL, 18 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	ASSERT_TRUE(room != MAP_FAILED);
	self->p = room + page;
	ASSERT_TRUE(map_at(self->p, self->rcv, 8));
	ASSERT_TRUE(map_at(self->p + 8 * page, self->rcv, 8));

	FILL_FAILS(EINVAL, self->p, 9);
	FILL_FAILS(EINVAL, self->p, 16);
	FILL_FAILS(EINVAL, self->p + 6 * page, 4);
	FILL_FAILS(EINVAL, self->p + 8 * page, 9);
	FILL_FAILS(EINVAL, self->p + 15 * page, 2);
	FILL_FAILS(EINVAL, self->p - page, 4);
	FILL_FAILS(EINVAL, self->p + 16 * page, 2);

	/* The end of the range wraps around. */
	arg = range(self->p, 8);
	arg.length = -page;
	EXPECT_EQ(-1, fill_range(self->rcv, &arg));
	EXPECT_EQ(EINVAL, errno);
	arg.length = -(__u64)(uintptr_t)self->p;
	EXPECT_EQ(-1, fill_range(self->rcv, &arg));
	EXPECT_EQ(EINVAL, errno);
	arg.length = 8 * page - arg.address;
	EXPECT_EQ(-1, fill_range(self->rcv, &arg));
	EXPECT_EQ(EINVAL, errno);
	arg.length = (1ULL << 32) + 8 * page;
	EXPECT_EQ(-1, fill_range(self->rcv, &arg));
	EXPECT_EQ(EINVAL, errno);
	RECV_ALL();
}

TEST_F(vsock_zerocopy, short_form_inside_a_mapping_einval)
{
	MAP(PAGES);
	SEND_SOME();
	SHORT_FAILS(EINVAL, self->p + page);
	SHORT_FAILS(EINVAL, self->p + (PAGES - 1) * page);
	RECV_ALL();
}

TEST_F(vsock_zerocopy, unknown_flags_einval)
{
	struct vm_sockets_zerocopy arg;
	int bit;

	MAP(PAGES);
	SEND_SOME();
	for (bit = 1; bit < 32; bit++) {
		arg = range(self->p, PAGES);
		arg.flags = VM_SOCKETS_ZEROCOPY_UNMAPPED | 1U << bit;
		EXPECT_EQ(-1, fill_range(self->rcv, &arg));
		EXPECT_EQ(EINVAL, errno);
	}
	RECV_ALL();
}

TEST_F(vsock_zerocopy, reserved_not_zero_einval)
{
	struct vm_sockets_zerocopy arg;
	int bit;

	MAP(PAGES);
	SEND_SOME();
	for (bit = 0; bit < 32; bit++) {
		arg = range(self->p, PAGES);
		arg.reserved = 1U << bit;
		EXPECT_EQ(-1, fill_range(self->rcv, &arg));
		EXPECT_EQ(EINVAL, errno);
		arg = range(self->p, PAGES);
		arg.reserved2 = 1U << bit;
		EXPECT_EQ(-1, fill_range(self->rcv, &arg));
		EXPECT_EQ(EINVAL, errno);
	}
	RECV_ALL();
}

TEST_F(vsock_zerocopy, optlen_of_no_form_einval)
{
	struct vm_sockets_zerocopy arg;
	socklen_t len, given;

	MAP(PAGES);
	SEND_SOME();
	for (given = 0; given < 16; given++) {
		if (given == sizeof(__u64))
			continue;
		arg = range(self->p, PAGES);
		len = given;
		EXPECT_EQ(-1, fill(self->rcv, &arg, &len));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(given, len);
	}
	len = -1;
	EXPECT_EQ(-1, fill(self->rcv, &arg, &len));
	EXPECT_EQ(EINVAL, errno);
	RECV_ALL();
}

TEST_F(vsock_zerocopy, unknown_extension_e2big)
{
	char arg[256];
	struct vm_sockets_zerocopy *known = (void *)arg;
	socklen_t len, given;
	size_t i;

	MAP(PAGES);
	SEND_SOME();
	for (given = sizeof(*known) + 1; given <= sizeof(arg); given += 13) {
		for (i = sizeof(*known); i < given; i += 7) {
			memset(arg, 0, sizeof(arg));
			*known = range(self->p, PAGES);
			arg[i] = 1;
			len = given;
			EXPECT_EQ(-1, fill(self->rcv, arg, &len));
			EXPECT_EQ(E2BIG, errno);
		}
	}
	RECV_ALL();
}

TEST_F(vsock_zerocopy, unreadable_argument_efault)
{
	struct vm_sockets_zerocopy *arg;
	socklen_t len;
	char *pages;

	MAP(PAGES);
	SEND_SOME();
	pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(pages != MAP_FAILED);
	ASSERT_EQ(0, mprotect(pages + page, page, PROT_NONE));

	len = sizeof(*arg);
	EXPECT_EQ(-1, fill(self->rcv, NULL, &len));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, fill(self->rcv, pages + page, &len));
	EXPECT_EQ(EFAULT, errno);
	len = sizeof(__u64);
	EXPECT_EQ(-1, fill(self->rcv, NULL, &len));
	EXPECT_EQ(EFAULT, errno);

	/* The second half is not there. */
	arg = (void *)(pages + page - 32);
	arg->address = (uintptr_t)self->p;
	arg->length = PAGES * page;
	len = sizeof(*arg);
	EXPECT_EQ(-1, fill(self->rcv, arg, &len));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, fill(self->rcv, arg, NULL));
	EXPECT_EQ(EFAULT, errno);
	RECV_ALL();
}

/* Found out at the end of the call, and still nothing is lost. */
TEST_F(vsock_zerocopy, unwritable_argument_efault)
{
	struct vm_sockets_zerocopy *arg;
	socklen_t len, given;
	char *pages;

	MAP(PAGES);
	SEND_SOME();
	pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(pages != MAP_FAILED);
	arg = (void *)pages;
	*arg = range(self->p, PAGES);
	/* The other one ends in the page that is not writable. */
	*(struct vm_sockets_zerocopy *)(pages + page - 32) = *arg;
	ASSERT_EQ(0, mprotect(pages + page, page, PROT_READ));
	len = sizeof(*arg);
	EXPECT_EQ(-1, fill(self->rcv, pages + page - 32, &len));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(self->flow.sent, queued(self->rcv));

	ASSERT_EQ(0, mprotect(pages, page, PROT_READ));
	for (given = sizeof(*arg); given >= 32; given -= 8) {
		len = given;
		EXPECT_EQ(-1, fill(self->rcv, pages, &len));
		EXPECT_EQ(EFAULT, errno);
		EXPECT_EQ(given, len);
	}
	RECV_ALL();
}

/* Stored last of all, when the bytes have found their place. */
TEST_F(vsock_zerocopy, unwritable_optlen_efault)
{
	struct vm_sockets_zerocopy arg;
	socklen_t *len;
	__u64 address;

	MAP(PAGES);
	SEND_SOME();
	len = mmap(NULL, page, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(len != MAP_FAILED);
	len[0] = sizeof(arg);
	len[1] = sizeof(address);
	ASSERT_EQ(0, mprotect(len, page, PROT_READ));

	arg = range(self->p, PAGES);
	EXPECT_EQ(-1, fill(self->rcv, &arg, len));
	EXPECT_EQ(EFAULT, errno);
	address = (uintptr_t)self->p;
	EXPECT_EQ(-1, fill(self->rcv, &address, len + 1));
	EXPECT_EQ(EFAULT, errno);
	RECV_ALL();
}

/* The argument lies in a page that was received: readable, not writable. */
TEST_F(vsock_zerocopy, argument_inside_the_mapping_efault)
{
	struct vm_sockets_zerocopy arg;
	socklen_t len = sizeof(arg);

	MAP(PAGES);
	arg = range(self->p, PAGES);
	ASSERT_EQ(sizeof(arg), send(self->snd, &arg, sizeof(arg), 0));
	ASSERT_TRUE(wait_queued(self->rcv, sizeof(arg)));
	ASSERT_EQ(0, fill_range(self->rcv, &arg));
	ASSERT_EQ(sizeof(arg), arg.bytes);

	SEND_SOME();
	EXPECT_EQ(-1, fill(self->rcv, self->p + page, &len));
	EXPECT_EQ(EFAULT, errno);
	RECV_ALL();
}

static int bpf(int cmd, union bpf_attr *attr)
{
	return syscall(__NR_bpf, cmd, attr, sizeof(*attr));
}

static int add_to_sockmap(int fd)
{
	union bpf_attr attr = {};
	int map, key = 0;

	attr.map_type = BPF_MAP_TYPE_SOCKMAP;
	attr.key_size = sizeof(int);
	attr.value_size = sizeof(int);
	attr.max_entries = 1;
	map = bpf(BPF_MAP_CREATE, &attr);
	if (map < 0)
		return -1;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = map;
	attr.key = (uintptr_t)&key;
	attr.value = (uintptr_t)&fd;
	attr.flags = BPF_ANY;
	if (bpf(BPF_MAP_UPDATE_ELEM, &attr)) {
		close(map);
		return -2;
	}

	return map;
}

static int remove_from_sockmap(int map)
{
	union bpf_attr attr = {};
	int key = 0;

	attr.map_fd = map;
	attr.key = (uintptr_t)&key;

	return bpf(BPF_MAP_DELETE_ELEM, &attr);
}

TEST_F(vsock_zerocopy, socket_in_a_sockmap_eopnotsupp)
{
	int sockmap;

	MAP(PAGES);
	SEND_SOME();
	sockmap = add_to_sockmap(self->rcv);
	if (sockmap == -1)
		SKIP(return, "no BPF sockmap: %s", strerror(errno));
	ASSERT_LE(0, sockmap);
	FILL_FAILS(EOPNOTSUPP, self->p, PAGES);
	SHORT_FAILS(EOPNOTSUPP, self->p);
	RECV_ALL();

	/* Out of the map it works again. */
	ASSERT_EQ(0, remove_from_sockmap(sockmap));
	SEND(5000);
	ARRIVED();
	EXPECT_EQ(5000, TAKE(self->p, PAGES).bytes);
	close(sockmap);
}

/* ---------- layout and argument forms ---------- */

static const size_t example[] = { 56, 4096, 8200 };

TEST_F(vsock_zerocopy, worked_example)
{
	const struct virtio_vsock_usr_hdr *hdr;
	__u32 eom = MESSAGES ? VIRTIO_VSOCK_SEQ_EOM : 0;
	struct vm_sockets_zerocopy arg;
	size_t i;

	if (page != 4096)
		SKIP(return, "the example is one of pages of 4096 bytes");

	MAP(PAGES);
	for (i = 0; i < ARRAY_SIZE(example); i++)
		SEND(example[i]);
	ARRIVED();

	arg = range(self->p, PAGES);
	EXPECT_EQ(6, take_arg(_metadata, self->rcv, &self->flow, &arg));
	EXPECT_EQ(3, arg.headers);
	EXPECT_EQ(12352, arg.bytes);
	EXPECT_EQ(0, arg.status);

	hdr = (void *)self->p;
	/* Whether they were copied is for the kernel to choose. */
	for (i = 0; i < ARRAY_SIZE(example); i++) {
		EXPECT_EQ(example[i], hdr[i].len);
		EXPECT_EQ(eom, hdr[i].flags & ~VIRTIO_VSOCK_USR_COPIED);
	}
	EXPECT_EQ(0, hdr[3].flags);
	EXPECT_EQ(0, hdr[3].len);
	EXPECT_TRUE(is_pattern(self->p + page, 56, 0));
	EXPECT_TRUE(is_zero(self->p + page + 56, page - 56));
	EXPECT_TRUE(is_pattern(self->p + 2 * page, 4096, 56));
	EXPECT_TRUE(is_pattern(self->p + 3 * page, 8200, 4152));
	EXPECT_TRUE(is_zero(self->p + 5 * page + 8, page - 8));
	EXPECT_EQ(SIGBUS, touch(self->p + 6 * page));
}

TEST_F(vsock_zerocopy, short_form)
{
	struct vm_sockets_zerocopy sum;
	__u64 address;
	socklen_t len;
	int i;

	MAP(PAGES);
	for (i = 0; i < 3; i++) {
		SEND_SOME();
		address = (uintptr_t)self->p;
		len = sizeof(address);
		ASSERT_EQ(0, fill(self->rcv, &address, &len));
		EXPECT_EQ(sizeof(address), len);
		EXPECT_EQ((uintptr_t)self->p, address);
		look(_metadata, &self->flow, self->p, PAGES, &sum);
		EXPECT_EQ(SOME, sum.bytes);
		EXPECT_EQ(0, queued(self->rcv));
	}

	/* Nothing is there: no header. */
	ASSERT_EQ(0, fill_short(self->rcv, self->p));
	look(_metadata, &self->flow, self->p, PAGES, &sum);
	EXPECT_EQ(0, sum.headers);
	EXPECT_EQ(SIGBUS, touch(self->p + page));
}

TEST_F(vsock_zerocopy, short_form_uses_whole_mapping)
{
	struct vm_sockets_zerocopy sum;

	MAP(4);
	SEND(5 * page);
	ARRIVED();
	ASSERT_EQ(0, fill_short(self->rcv, self->p));
	EXPECT_EQ(4, look(_metadata, &self->flow, self->p, 4, &sum));
	EXPECT_EQ(3 * page, sum.bytes);
	ASSERT_EQ(0, fill_short(self->rcv, self->p));
	look(_metadata, &self->flow, self->p, 4, &sum);
	EXPECT_EQ(2 * page, sum.bytes);
}

/* Shorter is served as far as it goes, longer as far as it is known. */
TEST_F(vsock_zerocopy, every_optlen_of_the_extended_form)
{
	struct vm_sockets_zerocopy sum, *arg;
	unsigned char bytes[80], before[80];
	socklen_t given, len, known;

	MAP(PAGES);
	arg = (void *)bytes;
	for (given = 16; given <= 72; given++) {
		SEND(5000);
		SEND(70);
		ARRIVED();

		/* What only comes out is not looked at on the way in. */
		memset(bytes, 0xa5, sizeof(bytes));
		*arg = range(self->p, PAGES);
		memset(bytes + 24, 0xa5, 60 - 24);
		if (given > sizeof(*arg))
			memset(bytes + sizeof(*arg), 0, given - sizeof(*arg));
		/* Nor is what is not there. */
		if (given < 64)
			memset(bytes + given, 0xa5, sizeof(bytes) - given);
		memcpy(before, bytes, sizeof(bytes));

		known = given < sizeof(*arg) ? given : sizeof(*arg);
		len = given;
		ASSERT_EQ(0, fill(self->rcv, bytes, &len))
			TH_LOG("optlen %u: %s", given, strerror(errno));
		EXPECT_EQ(known, len);
		EXPECT_EQ(0, memcmp(bytes + known, before + known,
				    sizeof(bytes) - known));
		EXPECT_EQ(0, memcmp(bytes, before, known < 24 ? known : 24));

		look(_metadata, &self->flow, self->p, PAGES, &sum);
		ASSERT_EQ(5070, sum.bytes);
		if (known >= 32)
			EXPECT_EQ(sum.bytes, arg->bytes);
		if (known >= 40)
			EXPECT_EQ(sum.copied, arg->copied);
		if (known >= 48)
			EXPECT_EQ(0, arg->queued);
		if (known >= 52)
			EXPECT_EQ(sum.headers, arg->headers);
		if (known >= 56)
			EXPECT_EQ(0, arg->error);
		if (known >= 60)
			EXPECT_EQ(0, arg->status);
		if (known >= 64)
			EXPECT_EQ(0, arg->reserved2);
	}
}

TEST_F(vsock_zerocopy, range_inside_a_mapping)
{
	struct vm_sockets_zerocopy arg;

	MAP(PAGES);
	SEND(100);
	ARRIVED();
	EXPECT_EQ(100, TAKE(self->p, 2).bytes);

	SEND(page);
	SEND(200);
	ARRIVED();
	arg = TAKE(self->p + 10 * page, 3);
	EXPECT_EQ(page + 200, arg.bytes);

	/* Outside of the range all is as it was. */
	EXPECT_TRUE(is_pattern(self->p + page, 100, 0));
	EXPECT_EQ(SIGBUS, touch(self->p + 9 * page));

	SEND(300);
	ARRIVED();
	EXPECT_EQ(300, TAKE(self->p + (PAGES - 2) * page, 2).bytes);
	EXPECT_TRUE(is_pattern(self->p + 11 * page, page, 100));
	EXPECT_TRUE(is_pattern(self->p + page, 100, 0));
}

TEST_F(vsock_zerocopy, large_packets_are_mapped)
{
	struct vm_sockets_zerocopy arg;

	if (page != 4096)
		SKIP(return, "pages of another size are copied");

	MAP(PAGES);
	SEND(48 * page);
	ARRIVED();
	arg = TAKE(self->p, PAGES);
	EXPECT_EQ(48 * page, arg.bytes);
	EXPECT_EQ(0, arg.copied);
}

/* Not a page for each, not even a header. */
TEST_F(vsock_zerocopy, small_packets_of_a_stream_share_pages)
{
	struct vm_sockets_zerocopy arg;
	int i;

	if (MESSAGES)
		SKIP(return, "messages share no page");

	MAP(PAGES);
	/* Small, but not so small that they were merged as they arrive. */
	for (i = 0; i < 100; i++)
		SEND(200);
	ARRIVED();
	arg = range(self->p, PAGES);
	EXPECT_EQ(1 + (20000 + page - 1) / page,
		  take_arg(_metadata, self->rcv, &self->flow, &arg));
	EXPECT_EQ(20000, arg.copied);
	EXPECT_EQ(1, arg.headers);
}

TEST_F(vsock_zerocopy, opt_in_after_data_has_arrived)
{
	SEND_SOME();
	SEND(40000);
	ARRIVED();
	MAP(PAGES);
	EXPECT_EQ(self->flow.sent, TAKE(self->p, PAGES).bytes);
	SEND(40000);
	ARRIVED();
	EXPECT_EQ(40000, TAKE(self->p, PAGES).bytes);
}

TEST_F(vsock_zerocopy, opt_in_when_partly_received)
{
	SEND(40000);
	SEND(5000);
	ARRIVED();
	EXPECT_EQ(STREAM ? 123 : 40000, RECV(STREAM ? 123 : 40000, 0));
	MAP(PAGES);
	TAKE(self->p, PAGES);
	EXPECT_EQ(self->flow.sent, self->flow.got);
}

TEST_F(vsock_zerocopy, lengths_around_a_page)
{
	static const int delta[] = { -1, 0, 1 };
	size_t pages, i;

	MAP(PAGES);
	for (pages = 1; pages <= 17; pages++) {
		for (i = 0; i < ARRAY_SIZE(delta); i++) {
			SEND(pages * page + delta[i]);
			ARRIVED();
			EXPECT_EQ(pages * page + delta[i],
				  TAKE(self->p, PAGES).bytes);
		}
	}
}

TEST_F(vsock_zerocopy, many_headers)
{
	struct vm_sockets_zerocopy arg;
	size_t n = STREAM ? 100 : 600, pages = 1024, first, i;

	RECONNECT(BIG_BUFFER);
	MAP(pages);
	/* On a stream each small one ends a run. */
	for (i = 0; i < n; i++) {
		SEND(STREAM ? page : 1);
		if (STREAM)
			SEND(200);
	}
	ARRIVED();

	arg = TAKE(self->p, pages);
	if (MESSAGES) {
		first = n < MAX_HEADERS ? n : MAX_HEADERS;
		EXPECT_EQ(first, arg.headers);
		EXPECT_EQ(first < n, !!(arg.status & VM_SOCKETS_ZEROCOPY_MORE));
		arg = TAKE(self->p, pages);
		EXPECT_EQ(n - first, arg.headers);
	}
	EXPECT_EQ(self->flow.sent, self->flow.got);
	EXPECT_EQ(0, arg.status);
}

TEST_F(vsock_zerocopy, no_room_left_is_more)
{
	struct vm_sockets_zerocopy arg;
	int i;

	MAP(PAGES);
	SEND(page);
	SEND(page);
	SEND(100);
	ARRIVED();
	for (i = 0; i < 3; i++) {
		arg = TAKE(self->p, 2);
		EXPECT_EQ(1, arg.headers);
		EXPECT_EQ(i < 2 ? page : 100, arg.bytes);
		EXPECT_EQ(i < 2 ? VM_SOCKETS_ZEROCOPY_MORE : 0, arg.status);
	}
}

/* Each call takes away what the one before has brought. */
TEST_F(vsock_zerocopy, former_contents_are_gone)
{
	struct vm_sockets_zerocopy arg;
	size_t i;

	MAP(PAGES);
	SEND(20 * page);
	ARRIVED();
	EXPECT_EQ(20 * page, TAKE(self->p, PAGES).bytes);

	arg = TAKE(self->p, PAGES);
	EXPECT_EQ(0, arg.headers);
	for (i = 1; i < PAGES; i++)
		EXPECT_EQ(SIGBUS, touch(self->p + i * page));
}

TEST_F(vsock_zerocopy, former_contents_are_gone_in_the_range_only)
{
	MAP(PAGES);
	SEND(20 * page);
	ARRIVED();
	EXPECT_EQ(20 * page, TAKE(self->p, PAGES).bytes);

	SEND(100);
	ARRIVED();
	EXPECT_EQ(100, TAKE(self->p + 5 * page, 4).bytes);
	EXPECT_TRUE(is_pattern(self->p + page, 4 * page, 0));
	EXPECT_TRUE(is_pattern(self->p + 9 * page, 12 * page, 8 * page));
}

/* Also where the former call had its range elsewhere. */
TEST_F(vsock_zerocopy, former_contents_of_another_range_are_gone)
{
	size_t i;

	MAP(PAGES);
	SEND(12 * page);
	ARRIVED();
	EXPECT_EQ(12 * page, TAKE(self->p + 10 * page, 20).bytes);

	SEND(100);
	ARRIVED();
	EXPECT_EQ(100, TAKE(self->p, PAGES).bytes);
	for (i = 2; i < PAGES; i++)
		EXPECT_EQ(SIGBUS, touch(self->p + i * page));
}

TEST_F(vsock_zerocopy, unmapped_flag)
{
	struct vm_sockets_zerocopy arg;
	int i;

	MAP(PAGES);
	for (i = 0; i < 6; i++) {
		SEND(10 * page + 100);
		SEND(33);
		ARRIVED();
		/* Now and then it is not true. */
		if (i % 2)
			ASSERT_EQ(0, madvise(self->p, PAGES * page,
					     MADV_DONTNEED));
		arg = range(self->p, PAGES);
		arg.flags = VM_SOCKETS_ZEROCOPY_UNMAPPED;
		take_arg(_metadata, self->rcv, &self->flow, &arg);
		EXPECT_EQ(10 * page + 133, arg.bytes);
	}
}

TEST_F(vsock_zerocopy, unmapped_flag_given_falsely_far_behind)
{
	struct vm_sockets_zerocopy arg;

	MAP(PAGES);
	SEND(40 * page);
	ARRIVED();
	EXPECT_EQ(40 * page, TAKE(self->p, PAGES).bytes);

	/* Only some later page of the range is still there. */
	ASSERT_EQ(0, madvise(self->p, 30 * page, MADV_DONTNEED));
	SEND(35 * page);
	SEND(4 * page);
	ARRIVED();
	arg = range(self->p, PAGES);
	arg.flags = VM_SOCKETS_ZEROCOPY_UNMAPPED;
	ASSERT_EQ(0, fill_range(self->rcv, &arg));
	look(_metadata, &self->flow, self->p, PAGES, &arg);
	EXPECT_EQ(39 * page, arg.bytes);
}

/* ---------- in any mixture with recv() ---------- */

/* One that is copied, and one that is mapped as far as it can be. */
static const size_t packet[] = { 3 * 4096 + 10, 12 * 4096 + 10 };
static const size_t offset[] = { 1, 100, 4095, 4096, 4097, 8192 };

TEST_F(vsock_zerocopy, rest_of_a_packet_that_recv_began)
{
	size_t i;

	MAP(PAGES);
	for (i = 0; i < 2 * ARRAY_SIZE(offset); i++) {
		SEND(packet[i % 2]);
		SEND(5000);
		ARRIVED();
		EXPECT_EQ(offset[i / 2], RECV(offset[i / 2], 0));
		TAKE(self->p, PAGES);
		EXPECT_EQ(self->flow.sent, self->flow.got);
	}
}

TEST_F(vsock_zerocopy, recv_after_a_packet_was_mapped_in_part)
{
	size_t pages, step, len;

	MAP(PAGES);
	for (pages = 2; pages <= 12; pages++) {
		for (step = 1; step < 6000; step = step * 5 + 1) {
			len = packet[pages > 4];
			SEND(len);
			SEND(5000);
			ARRIVED();
			EXPECT_EQ((pages - 1) * page,
				  TAKE(self->p, pages).bytes);
			if (STREAM)
				EXPECT_EQ(step, RECV(step, 0));
			TAKE(self->p, 3);
			RECV_ALL();
		}
	}
}

TEST_F(vsock_zerocopy, peek_changes_nothing)
{
	size_t i;

	MAP(PAGES);
	for (i = 0; i < 2 * ARRAY_SIZE(offset); i++) {
		SEND(packet[i % 2]);
		SEND(5000);
		ARRIVED();
		EXPECT_EQ(offset[i / 2], RECV(offset[i / 2], MSG_PEEK));
		EXPECT_EQ(page, TAKE(self->p, 2).bytes);
		EXPECT_EQ(offset[i / 2], RECV(offset[i / 2], MSG_PEEK));
		if (STREAM)
			EXPECT_EQ(10, RECV(10, 0));
		EXPECT_EQ(100, RECV(100, MSG_PEEK));
		TAKE(self->p, PAGES);
		EXPECT_EQ(self->flow.sent, self->flow.got);
	}
}

TEST_F(vsock_zerocopy, recv_gives_the_rest_of_a_message)
{
	MAP(PAGES);
	SEND(50000);
	SEND(70);
	ARRIVED();
	EXPECT_EQ(2 * page, TAKE(self->p, 3).bytes);
	EXPECT_EQ(STREAM ? 50070 - 2 * page : 50000 - 2 * page,
		  RECV(SLICE, MSG_PEEK));
	EXPECT_EQ(STREAM ? 50070 - 2 * page : 50000 - 2 * page, RECV(SLICE, 0));
	RECV_ALL();
}

TEST_F(vsock_zerocopy, recv_cuts_the_rest_of_a_message)
{
	if (STREAM)
		SKIP(return, "a stream has no messages");

	MAP(PAGES);
	SEND(50000);
	SEND(70);
	ARRIVED();
	EXPECT_EQ(2 * page, TAKE(self->p, 3).bytes);
	EXPECT_EQ(100, RECV(100, 0));
	EXPECT_EQ(70, TAKE(self->p, PAGES).bytes);
}

/* What is queued of a message is not offered before its end is there. */
TEST_F(vsock_zerocopy, incomplete_message_is_not_offered)
{
	struct vm_sockets_zerocopy arg;
	size_t len = 200 * 1024;

	if (STREAM)
		SKIP(return, "a stream has no messages");

	MAP(PAGES);
	SEND(100);
	ARRIVED();
	/* The window ends in the middle of the second. */
	ASSERT_EQ(len, send(self->snd, at(100), len, 0));
	ASSERT_EQ(-1, send(self->snd, at(100 + len), len, MSG_DONTWAIT));
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_TRUE(wait_queued(self->rcv, 256 * 1024));
	ASSERT_TRUE(add_message(&self->flow, len, 0));

	/* All of it is queued, but only the messages can be had. */
	self->flow.busy = true;
	do {
		arg = TAKE(self->p, PAGES);
		EXPECT_EQ(256 * 1024 - self->flow.got, arg.queued);
		EXPECT_EQ(self->flow.got < self->flow.sent,
			  !!(arg.status & VM_SOCKETS_ZEROCOPY_MORE));
	} while (arg.bytes && self->flow.got < self->flow.sent);
	EXPECT_EQ(100 + len, self->flow.got);
	arg = TAKE(self->p, PAGES);
	EXPECT_EQ(0, arg.headers);
	EXPECT_EQ(0, arg.status);
	EXPECT_EQ(0, events(self->rcv, 0) & POLLIN);
}

TEST_F(vsock_zerocopy, end_of_record_on_the_last_piece)
{
	struct vm_sockets_zerocopy arg;
	int i;

	if (STREAM)
		SKIP(return, "a stream has no records");

	MAP(PAGES);
	for (i = 0; i < 4; i++)
		ASSERT_TRUE(send_next(self->snd, &self->flow, 25000 * (i + 1),
				      i % 2 ? MSG_EOR : 0));
	ARRIVED();
	/* account() looks at the flags. */
	do {
		arg = TAKE(self->p, 3);
	} while (arg.bytes);
	EXPECT_EQ(self->flow.sent, self->flow.got);
}

TEST_F(vsock_zerocopy, messages_of_many_sizes)
{
	static const size_t sizes[] = {
		0, 1, 4095, 4096, 4097, 65535, 65536, 65537, 300000,
	};
	__u32 seed = env("VSOCK_ZEROCOPY_SEED", 1), start = seed;
	size_t pages, total, i;
	int round;

	RECONNECT(BIG_BUFFER);
	MAP(128);
	for (round = 0; round < 20; round++) {
		for (i = 0, total = 0; i < 6; i++) {
			size_t len = sizes[rnd(&seed, ARRAY_SIZE(sizes))];

			if (total + len > 800000)
				break;
			SEND(len);
			total += len;
		}
		ARRIVED();
		while (self->flow.got < self->flow.sent) {
			pages = 2 + rnd(&seed, 127);
			ASSERT_LT(0, TAKE(self->p, pages).bytes)
				TH_LOG("seed %u", start);
		}
	}
}

/* ---------- state of the socket ---------- */

TEST_F(vsock_zerocopy, siocinq_follows)
{
	struct vm_sockets_zerocopy arg;
	size_t left;

	MAP(PAGES);
	SEND(10 * page);
	SEND(100);
	ARRIVED();
	for (left = 10 * page + 100; left; left -= arg.bytes) {
		EXPECT_EQ(left, queued(self->rcv));
		arg = TAKE(self->p, 4);
		ASSERT_LT(0, arg.bytes);
	}
	EXPECT_EQ(0, queued(self->rcv));
}

TEST_F(vsock_zerocopy, so_inq_counts_what_is_left)
{
	char buf[128], control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { .iov_base = buf, .iov_len = 100 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int one = 1, inq = -1;
	struct cmsghdr *cmsg;

	MAP(PAGES);
	ASSERT_EQ(0, setsockopt(self->rcv, SOL_SOCKET, SO_INQ, &one,
				sizeof(one)));
	SEND(2 * page);
	SEND(100);
	SEND(50);
	ARRIVED();
	EXPECT_EQ(2 * page, TAKE(self->p, 3).bytes);

	ASSERT_EQ(100, recvmsg(self->rcv, &msg, MSG_DONTWAIT));
	cmsg = CMSG_FIRSTHDR(&msg);
	ASSERT_TRUE(!!cmsg);
	ASSERT_EQ(SCM_INQ, cmsg->cmsg_type);
	memcpy(&inq, CMSG_DATA(cmsg), sizeof(inq));
	EXPECT_EQ(STREAM ? 50 : 1, inq);
}

TEST_F(vsock_zerocopy, poll_sees_what_is_left)
{
	MAP(PAGES);
	EXPECT_EQ(0, events(self->rcv, 0));
	SEND(3 * page);
	ARRIVED();
	EXPECT_EQ(POLLIN, events(self->rcv, 0));
	EXPECT_EQ(page, TAKE(self->p, 2).bytes);
	EXPECT_EQ(POLLIN, events(self->rcv, 0));
	EXPECT_EQ(2 * page, TAKE(self->p, 3).bytes);
	EXPECT_EQ(0, events(self->rcv, 0));
}

TEST_F(vsock_zerocopy, epoll_wakes_for_what_comes_next)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int i, ep = epoll_create1(0);

	ASSERT_LE(0, ep);
	MAP(PAGES);
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, self->rcv, &ev));
	EXPECT_EQ(0, epoll_wait(ep, &ev, 1, 0));
	for (i = 0; i < 5; i++) {
		SEND(3 * page + i);
		EXPECT_EQ(1, epoll_wait(ep, &ev, 1, DEADLINE_MS));
		ARRIVED();
		EXPECT_EQ(3 * page + i, TAKE(self->p, PAGES).bytes);
		/* At most one more wake-up, of the packet that was taken. */
		epoll_wait(ep, &ev, 1, 0);
		EXPECT_EQ(0, epoll_wait(ep, &ev, 1, 0));
	}
	close(ep);
}

TEST_F(vsock_zerocopy, low_water_mark)
{
	int mark = 3 * page;

	if (MESSAGES)
		SKIP(return, "the mark is one of streams");

	MAP(PAGES);
	ASSERT_EQ(0, setsockopt(self->rcv, SOL_SOCKET, SO_RCVLOWAT, &mark,
				sizeof(mark)));
	SEND(2 * page);
	ARRIVED();
	EXPECT_EQ(0, events(self->rcv, 0));

	/* What is below the mark can be had, as with MSG_DONTWAIT. */
	EXPECT_EQ(page, TAKE(self->p, 2).bytes);
	SEND(page + 100);
	ARRIVED();
	EXPECT_EQ(0, events(self->rcv, 0));
	SEND(page);
	EXPECT_EQ(POLLIN, events(self->rcv, DEADLINE_MS));
	ARRIVED();
	EXPECT_EQ(page, TAKE(self->p, 2).bytes);
	EXPECT_EQ(0, events(self->rcv, 0));
	RECV_ALL();
}

TEST_F(vsock_zerocopy, empty_queue_never_blocks)
{
	struct timeval tv = { .tv_sec = 20 };
	struct vm_sockets_zerocopy arg, sum;
	long long start = now_ms();
	int mark = 100;

	/* The socket blocks, for as long as it takes and for 20 seconds. */
	MAP(PAGES);
	arg = TAKE(self->p, PAGES);
	EXPECT_EQ(0, arg.headers);
	EXPECT_EQ(0, arg.status);
	ASSERT_EQ(0, fill_short(self->rcv, self->p));
	look(_metadata, &self->flow, self->p, PAGES, &sum);

	ASSERT_EQ(0, setsockopt(self->rcv, SOL_SOCKET, SO_RCVTIMEO, &tv,
				sizeof(tv)));
	ASSERT_EQ(0, setsockopt(self->rcv, SOL_SOCKET, SO_RCVLOWAT, &mark,
				sizeof(mark)));
	EXPECT_EQ(0, TAKE(self->p, PAGES).headers);
	EXPECT_GT(DEADLINE_MS, now_ms() - start);
}

TEST_F(vsock_zerocopy, pages_left_when_peer_shuts_down)
{
	struct vm_sockets_zerocopy arg, sum;
	size_t left;

	MAP(PAGES);
	SEND(10 * page);
	SEND(100);
	ASSERT_EQ(0, shutdown(self->snd, SHUT_WR));
	ASSERT_TRUE(wait_event(self->rcv, POLLRDHUP));
	for (left = 10 * page + 100; left; left -= arg.bytes) {
		EXPECT_EQ(POLLIN | POLLRDHUP, events(self->rcv, 0));
		arg = TAKE(self->p, 4);
		ASSERT_LT(0, arg.bytes);
		EXPECT_EQ(left > arg.bytes ? VM_SOCKETS_ZEROCOPY_MORE :
					     VM_SOCKETS_ZEROCOPY_FINISHED,
			  arg.status);
	}

	/* And so it stays, while recv() returns 0. */
	EXPECT_EQ(POLLRDHUP, events(self->rcv, 0) & POLLRDHUP);
	arg = TAKE(self->p, 4);
	EXPECT_EQ(0, arg.headers);
	EXPECT_EQ(VM_SOCKETS_ZEROCOPY_FINISHED, arg.status);
	ASSERT_EQ(0, fill_short(self->rcv, self->p));
	look(_metadata, &self->flow, self->p, 4, &sum);
	EXPECT_EQ(0, sum.headers);
	EXPECT_EQ(0, RECV(100, 0));

	/* Nor does it change when this end says the same. */
	ASSERT_EQ(0, shutdown(self->rcv, SHUT_WR));
	EXPECT_EQ(POLLHUP | POLLRDHUP,
		  events(self->rcv, 0) & (POLLHUP | POLLRDHUP));
	arg = TAKE(self->p, 4);
	EXPECT_EQ(0, arg.headers);
	EXPECT_EQ(VM_SOCKETS_ZEROCOPY_FINISHED, arg.status);
}

TEST_F(vsock_zerocopy, pages_left_when_peer_closes)
{
	struct vm_sockets_zerocopy arg, sum;

	MAP(PAGES);
	SEND(10 * page);
	SEND(100);
	ARRIVED();
	ASSERT_EQ(0, close(self->snd));
	self->snd = -1;
	ASSERT_TRUE(wait_event(self->rcv, POLLRDHUP));
	EXPECT_EQ(5 * page, TAKE(self->p, 6).bytes);
	arg = TAKE(self->p, PAGES);
	EXPECT_EQ(5 * page + 100, arg.bytes);
	EXPECT_EQ(VM_SOCKETS_ZEROCOPY_FINISHED, arg.status);

	EXPECT_EQ(POLLRDHUP, events(self->rcv, 0) & POLLRDHUP);
	arg = TAKE(self->p, PAGES);
	EXPECT_EQ(0, arg.headers);
	EXPECT_EQ(VM_SOCKETS_ZEROCOPY_FINISHED, arg.status);
	ASSERT_EQ(0, fill_short(self->rcv, self->p));
	look(_metadata, &self->flow, self->p, PAGES, &sum);
	EXPECT_EQ(0, sum.headers);
	EXPECT_EQ(0, RECV(100, 0));
}

/* A peer that closes with unread data resets the connection. */
TEST_F(vsock_zerocopy, pages_left_when_peer_resets)
{
	struct vm_sockets_zerocopy arg;

	MAP(PAGES);
	SEND(3 * page);
	ARRIVED();
	ASSERT_EQ(10, send(self->rcv, pattern, 10, 0));
	ASSERT_TRUE(wait_queued(self->snd, 10));
	ASSERT_EQ(0, close(self->snd));
	self->snd = -1;
	ASSERT_TRUE(wait_event(self->rcv, POLLRDHUP));
	arg = TAKE(self->p, PAGES);
	EXPECT_EQ(3 * page, arg.bytes);
	EXPECT_EQ(VM_SOCKETS_ZEROCOPY_FINISHED, arg.status);
}

/* Nothing was ever sent: the socket is over in another state than above. */
TEST_F(vsock_zerocopy, peer_closed_nothing_sent)
{
	struct vm_sockets_zerocopy arg, sum;

	MAP(PAGES);
	ASSERT_EQ(0, close(self->snd));
	self->snd = -1;
	ASSERT_TRUE(wait_event(self->rcv, POLLRDHUP));
	arg = TAKE(self->p, PAGES);
	EXPECT_EQ(0, arg.headers);
	EXPECT_EQ(VM_SOCKETS_ZEROCOPY_FINISHED, arg.status);
	ASSERT_EQ(0, fill_short(self->rcv, self->p));
	look(_metadata, &self->flow, self->p, PAGES, &sum);
	EXPECT_EQ(0, sum.headers);
}

TEST_F(vsock_zerocopy, own_shutdown_is_the_end)
{
	struct vm_sockets_zerocopy arg;

	MAP(PAGES);
	ASSERT_EQ(0, shutdown(self->rcv, SHUT_RD));
	ASSERT_EQ(0, RECV(100, 0));
	arg = TAKE(self->p, PAGES);
	EXPECT_EQ(0, arg.headers);
	EXPECT_EQ(VM_SOCKETS_ZEROCOPY_FINISHED, arg.status);
}

/* recv() returns 0 then, whatever is queued. */
TEST_F(vsock_zerocopy, own_shutdown_with_data_left)
{
	struct vm_sockets_zerocopy arg;

	MAP(PAGES);
	SEND(2 * page);
	SEND(100);
	ARRIVED();
	EXPECT_EQ(page, TAKE(self->p, 2).bytes);
	ASSERT_EQ(0, shutdown(self->rcv, SHUT_RD));
	ASSERT_EQ(0, RECV(100, 0));
	arg = range(self->p, PAGES);
	ASSERT_EQ(0, fill_range(self->rcv, &arg));
	EXPECT_EQ(0, arg.bytes);
	EXPECT_EQ(0, arg.headers);
	EXPECT_EQ(VM_SOCKETS_ZEROCOPY_FINISHED, arg.status);
	EXPECT_TRUE(is_zero(self->p, page));
}

/*
 * Leave an error on the receiver: shrink its buffer under queued data, then
 * send before the peer has heard of it.  The loopback work runs on the CPU
 * that queued it, so a SCHED_FIFO task that stays there is always in time;
 * without that privilege it takes some attempts.
 */
static bool make_error(int snd, int rcv)
{
	struct sched_param fifo = { .sched_priority = 1 }, other = {};
	bool sent;
	cpu_set_t cpu;

	CPU_ZERO(&cpu);
	CPU_SET(sched_getcpu(), &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
	sched_setscheduler(0, SCHED_FIFO, &fifo);
	sent = !set_buffer_size(rcv, 512) &&
	       send(snd, "", 1, MSG_DONTWAIT) == 1;
	sched_setscheduler(0, SCHED_OTHER, &other);

	return sent && wait_event(rcv, POLLERR);
}

TEST_F(vsock_zerocopy, pending_error_is_reported_and_stays)
{
	struct vm_sockets_zerocopy arg;
	socklen_t len = sizeof(int);
	int attempt, err = 0;

	for (attempt = 0; attempt < 100; attempt++) {
		SEND(2 * page);
		SEND(100);
		ARRIVED();
		if (make_error(self->snd, self->rcv))
			break;

		RECONNECT(0);
		self->flow.got = self->flow.sent;
		self->flow.next = self->flow.count;
	}
	ASSERT_GT(100, attempt);
	self->flow.error = ENOBUFS;
	MAP(PAGES);

	arg = TAKE(self->p, 2);
	EXPECT_EQ(page, arg.bytes);
	EXPECT_EQ(VM_SOCKETS_ZEROCOPY_MORE, arg.status);
	arg = TAKE(self->p, PAGES);
	EXPECT_EQ(page + 100, arg.bytes);
	EXPECT_EQ(VM_SOCKETS_ZEROCOPY_FINISHED, arg.status);
	arg = TAKE(self->p, PAGES);
	EXPECT_EQ(0, arg.headers);
	EXPECT_EQ(VM_SOCKETS_ZEROCOPY_FINISHED, arg.status);
	ASSERT_EQ(0, fill_short(self->rcv, self->p));

	EXPECT_EQ(0, getsockopt(self->rcv, SOL_SOCKET, SO_ERROR, &err, &len));
	EXPECT_EQ(ENOBUFS, err);
	self->flow.error = 0;
	TAKE(self->p, PAGES);
}

/* ---------- the mapping ---------- */

TEST_F(vsock_zerocopy, hole_is_sigbus)
{
	MAP(PAGES);
	EXPECT_EQ(SIGBUS, touch(self->p));
	EXPECT_EQ(SIGBUS, touch(self->p + (PAGES - 1) * page));
	SEND(100);
	ARRIVED();
	TAKE(self->p, PAGES);
	EXPECT_EQ(0, touch(self->p));
	EXPECT_EQ(0, touch(self->p + page));
	EXPECT_EQ(SIGBUS, touch(self->p + 2 * page));
	EXPECT_EQ(SIGBUS, touch(self->p + (PAGES - 1) * page));
}

TEST_F(vsock_zerocopy, fork_child_has_no_mapping)
{
	int status = -1;
	pid_t pid;

	MAP(PAGES);
	SEND(12 * page);
	ARRIVED();
	EXPECT_EQ(12 * page, TAKE(self->p, PAGES).bytes);

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct vm_sockets_zerocopy arg = range(self->p, PAGES);

		_exit(touch(self->p) != SIGSEGV ? 1 :
		      touch(self->p + page) != SIGSEGV ? 2 :
		      fill_range(self->rcv, &arg) != -1 ? 3 :
		      errno != EINVAL ? 4 : 0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(is_pattern(self->p + page, 12 * page, 0));

	/* Nothing of it hinders the parent. */
	SEND(13 * page);
	ARRIVED();
	EXPECT_EQ(13 * page, TAKE(self->p, PAGES).bytes);
}

/* The child makes its own mapping of the socket that both have. */
TEST_F(vsock_zerocopy, fork_child_maps_for_itself)
{
	struct flow flow;
	int status = -1;
	pid_t pid;

	MAP(PAGES);
	SEND(2 * page);
	SEND(3 * page);
	ARRIVED();
	EXPECT_EQ(2 * page, TAKE(self->p, 3).bytes);

	flow = self->flow;
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		char *p = map(self->rcv, PAGES);
		struct vm_sockets_zerocopy arg = range(p, PAGES);

		_exit(p == MAP_FAILED || fill_range(self->rcv, &arg) ||
		      arg.bytes != 3 * page ||
		      !is_pattern(p + page, 3 * page, flow.got));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, queued(self->rcv));
	EXPECT_TRUE(is_pattern(self->p + page, 2 * page, 0));
}

TEST_F(vsock_zerocopy, mremap_cannot_grow)
{
	MAP(PAGES);
	SEND(100);
	ARRIVED();
	TAKE(self->p, PAGES);
	EXPECT_TRUE(mremap(self->p, PAGES * page, 2 * PAGES * page,
			   MREMAP_MAYMOVE) == MAP_FAILED);
	EXPECT_TRUE(mremap(self->p, PAGES * page, (PAGES + 1) * page, 0) ==
		    MAP_FAILED);
	/* Nor be doubled: a length of 0 asks for another mapping of the same. */
	EXPECT_TRUE(mremap(self->p, 0, PAGES * page, MREMAP_MAYMOVE) ==
		    MAP_FAILED);
	EXPECT_TRUE(is_pattern(self->p + page, 100, 0));
	SEND(100);
	ARRIVED();
	EXPECT_EQ(100, TAKE(self->p, PAGES).bytes);
}

TEST_F(vsock_zerocopy, mremap_moves)
{
	char *room = mmap(NULL, PAGES * page, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_TRUE(room != MAP_FAILED);
	MAP(PAGES);
	SEND(3 * page);
	ARRIVED();
	TAKE(self->p, PAGES);
	ASSERT_TRUE(mremap(self->p, PAGES * page, PAGES * page,
			   MREMAP_MAYMOVE | MREMAP_FIXED, room) == room);
	EXPECT_TRUE(is_pattern(room + page, 3 * page, 0));
	EXPECT_EQ(SIGSEGV, touch(self->p + page));

	SEND(5000);
	ARRIVED();
	FILL_FAILS(EINVAL, self->p, PAGES);
	EXPECT_EQ(5000, TAKE(room, PAGES).bytes);
	SEND(5000);
	ARRIVED();
	ASSERT_EQ(0, fill_short(self->rcv, room));
	EXPECT_EQ(0, queued(self->rcv));
}

TEST_F(vsock_zerocopy, mremap_shrinks)
{
	MAP(PAGES);
	SEND(10 * page);
	ARRIVED();
	TAKE(self->p, PAGES);
	ASSERT_TRUE(mremap(self->p, PAGES * page, 5 * page, 0) == self->p);
	EXPECT_TRUE(is_pattern(self->p + page, 4 * page, 0));
	EXPECT_EQ(SIGSEGV, touch(self->p + 5 * page));

	SEND(10 * page);
	ARRIVED();
	FILL_FAILS(EINVAL, self->p, 6);
	EXPECT_EQ(4 * page, TAKE(self->p, 5).bytes);
	EXPECT_EQ(4 * page, TAKE(self->p, 5).bytes);
	EXPECT_EQ(2 * page, TAKE(self->p, 5).bytes);
}

TEST_F(vsock_zerocopy, partly_unmapped)
{
	MAP(PAGES);
	SEND(10 * page);
	ARRIVED();
	EXPECT_EQ(10 * page, TAKE(self->p, PAGES).bytes);

	/* A hole in the middle makes two mappings of it. */
	ASSERT_EQ(0, munmap(self->p + 5 * page, 2 * page));
	EXPECT_TRUE(is_pattern(self->p + page, 4 * page, 0));
	EXPECT_TRUE(is_pattern(self->p + 7 * page, 4 * page, 6 * page));
	SEND(10 * page);
	ARRIVED();
	FILL_FAILS(EINVAL, self->p, PAGES);
	EXPECT_EQ(4 * page, TAKE(self->p, 5).bytes);
	EXPECT_EQ(6 * page, TAKE(self->p + 7 * page, PAGES - 7).bytes);
}

TEST_F(vsock_zerocopy, two_mappings_of_one_socket)
{
	char *other;
	int i;

	MAP(PAGES);
	other = map(self->rcv, PAGES);
	ASSERT_TRUE(other != MAP_FAILED);
	SEND(3 * page + 5);
	ARRIVED();
	EXPECT_EQ(3 * page + 5, TAKE(self->p, PAGES).bytes);
	for (i = 0; i < 3; i++) {
		SEND(5 * page + 5);
		ARRIVED();
		EXPECT_EQ(5 * page + 5, TAKE(other, PAGES).bytes);
		EXPECT_TRUE(is_pattern(self->p + page, 3 * page + 5, 0));
	}

	ASSERT_EQ(0, munmap(self->p, PAGES * page));
	EXPECT_TRUE(is_pattern(other + page, 5 * page + 5,
			       self->flow.got - 5 * page - 5));
}

TEST_F(vsock_zerocopy, dontneed_drops_the_pages)
{
	MAP(PAGES);
	SEND(10 * page);
	ARRIVED();
	TAKE(self->p, PAGES);
	ASSERT_EQ(0, madvise(self->p + 2 * page, 3 * page, MADV_DONTNEED));
	EXPECT_TRUE(is_pattern(self->p + page, page, 0));
	EXPECT_EQ(SIGBUS, touch(self->p + 2 * page));
	EXPECT_EQ(SIGBUS, touch(self->p + 4 * page));
	EXPECT_TRUE(is_pattern(self->p + 5 * page, 6 * page, 4 * page));
	ASSERT_EQ(0, madvise(self->p, PAGES * page, MADV_DONTNEED));
	EXPECT_EQ(SIGBUS, touch(self->p));

	SEND(10 * page);
	ARRIVED();
	EXPECT_EQ(10 * page, TAKE(self->p, PAGES).bytes);
}

/* Advice and locks are for other memory: nothing happens to these pages. */
TEST_F(vsock_zerocopy, advice_and_locks_change_nothing)
{
	static const int advice[] = {
		MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED,
		MADV_REMOVE, MADV_DOFORK, MADV_MERGEABLE, MADV_HUGEPAGE,
		MADV_FREE, MADV_WIPEONFORK, MADV_COLD, MADV_PAGEOUT,
		MADV_POPULATE_READ, MADV_POPULATE_WRITE, MADV_COLLAPSE,
	};
	int status = -1;
	pid_t pid;
	size_t i;

	MAP(PAGES);
	SEND(12 * page + 10);
	ARRIVED();
	EXPECT_EQ(12 * page + 10, TAKE(self->p, PAGES).bytes);

	for (i = 0; i < ARRAY_SIZE(advice); i++) {
		madvise(self->p, PAGES * page, advice[i]);
		madvise(self->p + 5 * page, 2 * page, advice[i]);
	}
	mlock(self->p, PAGES * page);
	munlock(self->p, PAGES * page);
	msync(self->p, PAGES * page, MS_SYNC | MS_INVALIDATE);
	EXPECT_EQ(-1, madvise(self->p, PAGES * page, MADV_DOFORK));
	EXPECT_EQ(EINVAL, errno);

	EXPECT_TRUE(is_pattern(self->p + page, 12 * page + 10, 0));
	EXPECT_TRUE(is_zero(self->p + 13 * page + 10, page - 10));
	EXPECT_EQ(SIGBUS, touch(self->p + 14 * page));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(touch(self->p) != SIGSEGV);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);

	SEND(12 * page + 10);
	ARRIVED();
	EXPECT_EQ(12 * page + 10, TAKE(self->p, PAGES).bytes);
}

/* A mapping that is to be populated or locked from the start has holes, too. */
TEST_F(vsock_zerocopy, populated_or_locked_mapping)
{
	static const int flags[] = { MAP_POPULATE, MAP_LOCKED };
	size_t i;
	char *p;

	ASSERT_EQ(0, opt_in(self->rcv, 1));
	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		p = mmap(NULL, PAGES * page, PROT_READ, MAP_SHARED | flags[i],
			 self->rcv, 0);
		ASSERT_TRUE(p != MAP_FAILED);
		EXPECT_EQ(SIGBUS, touch(p));
		SEND(12 * page + 10);
		ARRIVED();
		EXPECT_EQ(12 * page + 10, TAKE(p, PAGES).bytes);
		SEND(100);
		ARRIVED();
		EXPECT_EQ(100, TAKE(p, PAGES).bytes);
		EXPECT_EQ(0, munmap(p, PAGES * page));
	}
}

/* What arrives later must not show up in pages that are mapped. */
TEST_F(vsock_zerocopy, mapped_pages_do_not_change)
{
	static const size_t sizes[] = { 10, 4096 + 10, 8200, 65536 };
	char *other;
	size_t i, n;

	MAP(PAGES);
	other = map(self->rcv, PAGES);
	ASSERT_TRUE(other != MAP_FAILED);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		__u64 start = self->flow.got;
		size_t rest = -sizes[i] & (page - 1);

		SEND(sizes[i]);
		ARRIVED();
		EXPECT_EQ(sizes[i], TAKE(self->p, PAGES).bytes);
		for (n = 0; n < 3; n++) {
			SEND(50);
			SEND(1);
			SEND(n * 5000 + 1);
		}
		ARRIVED();
		EXPECT_TRUE(is_pattern(self->p + page, sizes[i], start));
		EXPECT_TRUE(is_zero(self->p + page + sizes[i], rest));
		TAKE(other, PAGES);
		EXPECT_EQ(self->flow.sent, self->flow.got);
		EXPECT_TRUE(is_pattern(self->p + page, sizes[i], start));
		EXPECT_TRUE(is_zero(self->p + page + sizes[i], rest));
	}
}

/* The same when the first part of what is queued was mapped before. */
TEST_F(vsock_zerocopy, mapped_part_of_a_packet_does_not_change)
{
	char *other;

	MAP(PAGES);
	other = map(self->rcv, PAGES);
	ASSERT_TRUE(other != MAP_FAILED);
	SEND(12 * page + 10);
	ARRIVED();
	EXPECT_EQ(2 * page, TAKE(self->p, 3).bytes);
	SEND(50);
	SEND(60);
	ARRIVED();
	EXPECT_EQ(10 * page + 120, TAKE(other, PAGES).bytes);
	EXPECT_TRUE(is_pattern(self->p + page, 2 * page, 0));
}

TEST_F(vsock_zerocopy, mapping_outlives_the_socket)
{
	MAP(PAGES);
	SEND(12 * page + 10);
	ARRIVED();
	EXPECT_EQ(12 * page + 10, TAKE(self->p, PAGES).bytes);
	SEND(3 * page);
	ARRIVED();
	close(self->snd);
	close(self->rcv);
	close(self->listener);
	self->snd = -1;
	self->rcv = -1;
	self->listener = -1;
	EXPECT_TRUE(is_pattern(self->p + page, 12 * page + 10, 0));
	EXPECT_TRUE(is_zero(self->p + 13 * page + 10, page - 10));
	EXPECT_EQ(SIGBUS, touch(self->p + 14 * page));
	EXPECT_EQ(0, munmap(self->p, PAGES * page));
}

/* Resident pages of the mapping at @p, in KiB, as the kernel counts them. */
static long resident(const void *p)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long start, end;
	bool here = false;
	char line[512];
	long kib = -1;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = start == (uintptr_t)p;
		else if (here && sscanf(line, "Rss: %ld", &kib) == 1)
			break;
	}
	if (f)
		fclose(f);

	return kib;
}

TEST_F(vsock_zerocopy, mapped_pages_count_as_resident)
{
	long kib = page / 1024;

	MAP(PAGES);
	if (resident(self->p) < 0)
		SKIP(return, "no /proc/self/smaps");
	EXPECT_EQ(0, resident(self->p));
	SEND(20 * page);
	ARRIVED();
	EXPECT_EQ(20 * page, TAKE(self->p, PAGES).bytes);
	EXPECT_EQ(21 * kib, resident(self->p));
	EXPECT_EQ(0, TAKE(self->p, PAGES).bytes);
	EXPECT_EQ(kib, resident(self->p));
}

/* ---------- pages that somebody else holds as well ---------- */

TEST_F(vsock_zerocopy, vmsplice_keeps_the_pages)
{
	struct iovec iov;
	char buf[12 * 4096];
	size_t got = 0;
	ssize_t n;
	int fd[2];

	ASSERT_EQ(0, pipe(fd));
	MAP(PAGES);
	SEND(sizeof(buf));
	ARRIVED();
	EXPECT_EQ(sizeof(buf), TAKE(self->p, PAGES).bytes);
	iov.iov_base = self->p + page;
	iov.iov_len = sizeof(buf);
	ASSERT_EQ(sizeof(buf), vmsplice(fd[1], &iov, 1, 0));

	/* They leave the mapping and stay in the pipe. */
	SEND(10 * page);
	ARRIVED();
	EXPECT_EQ(10 * page, TAKE(self->p, PAGES).bytes);
	ASSERT_EQ(0, munmap(self->p, PAGES * page));
	close(self->snd);
	close(self->rcv);
	self->snd = -1;
	self->rcv = -1;
	while (got < sizeof(buf)) {
		n = read(fd[0], buf + got, sizeof(buf) - got);
		ASSERT_LT(0, n);
		got += n;
	}
	EXPECT_TRUE(is_pattern(buf, sizeof(buf), 0));
	close(fd[0]);
	close(fd[1]);
}

TEST_F(vsock_zerocopy, process_vm_readv_reads_the_pages)
{
	struct iovec local, remote;
	char buf[12 * 4096];

	MAP(PAGES);
	SEND(sizeof(buf));
	ARRIVED();
	EXPECT_EQ(sizeof(buf), TAKE(self->p, PAGES).bytes);
	local.iov_base = buf;
	local.iov_len = sizeof(buf);
	remote.iov_base = self->p + page;
	remote.iov_len = sizeof(buf);
	if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) < 0)
		SKIP(return, "no process_vm_readv(): %s", strerror(errno));
	EXPECT_TRUE(is_pattern(buf, sizeof(buf), 0));

	remote.iov_base = self->p + 20 * page;
	EXPECT_EQ(-1, process_vm_readv(getpid(), &local, 1, &remote, 1, 0));
	EXPECT_EQ(EFAULT, errno);
}

TEST_F(vsock_zerocopy, write_from_the_mapping)
{
	char buf[12 * 4096];
	int fd[2];

	ASSERT_EQ(0, pipe(fd));
	MAP(PAGES);
	SEND(sizeof(buf));
	ARRIVED();
	EXPECT_EQ(sizeof(buf), TAKE(self->p, PAGES).bytes);
	ASSERT_EQ(sizeof(buf), write(fd[1], self->p + page, sizeof(buf)));
	ASSERT_EQ(sizeof(buf), read(fd[0], buf, sizeof(buf)));
	EXPECT_TRUE(is_pattern(buf, sizeof(buf), 0));
	EXPECT_EQ(-1, write(fd[1], self->p + 20 * page, 10));
	EXPECT_EQ(EFAULT, errno);
	close(fd[0]);
	close(fd[1]);
}

static bool enable_zerocopy(int fd)
{
	int one = 1;

	return !setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one));
}

/* The notification of a MSG_ZEROCOPY send; false when none comes in time. */
static bool reap_notification(int fd)
{
	char control[128];
	struct msghdr msg = {
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct sock_extended_err *err;
	struct cmsghdr *cmsg;

	if (!wait_event(fd, POLLERR) || recvmsg(fd, &msg, MSG_ERRQUEUE))
		return false;

	cmsg = CMSG_FIRSTHDR(&msg);
	if (!cmsg || cmsg->cmsg_level != SOL_VSOCK ||
	    cmsg->cmsg_type != VSOCK_RECVERR)
		return false;
	err = (void *)CMSG_DATA(cmsg);

	return err->ee_origin == SO_EE_ORIGIN_ZEROCOPY && !err->ee_errno;
}

/* Received pages that go out on another connection, and are received there. */
TEST_F(vsock_zerocopy, mapped_pages_forwarded_by_msg_zerocopy)
{
	struct flow flow = { .type = variant->type };
	int snd, rcv;
	char *p;

	MAP(PAGES);
	SEND(12 * page);
	ARRIVED();
	EXPECT_EQ(12 * page, TAKE(self->p, PAGES).bytes);

	ASSERT_TRUE(connect_pair(variant->type, self->listener, &self->addr, 0,
				 &snd, &rcv));
	ASSERT_EQ(0, opt_in(rcv, 1));
	p = map(rcv, PAGES);
	ASSERT_TRUE(p != MAP_FAILED);
	ASSERT_TRUE(enable_zerocopy(snd));
	ASSERT_EQ(12 * page, send(snd, self->p + page, 12 * page, MSG_ZEROCOPY));
	ASSERT_TRUE(add_message(&flow, 12 * page, 0));
	ASSERT_TRUE(wait_queued(rcv, 12 * page));

	/* The first owner lets go of them in between. */
	SEND(2 * page);
	ARRIVED();
	EXPECT_EQ(2 * page, TAKE(self->p, PAGES).bytes);
	EXPECT_EQ(12 * page, take(_metadata, rcv, &flow, p, PAGES).copied);
	EXPECT_TRUE(reap_notification(snd));
	EXPECT_TRUE(is_pattern(p + page, 12 * page, 0));
	close(snd);
	close(rcv);
}

/* ---------- senders whose pages are their own ---------- */

static char *map_memfd(int *fd, size_t pages)
{
	char *p;

	*fd = syscall(__NR_memfd_create, "vsock_zerocopy", 0);
	if (*fd < 0 || ftruncate(*fd, pages * page))
		return MAP_FAILED;

	p = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, MAP_SHARED, *fd,
		 0);
	if (p != MAP_FAILED)
		memset(p, '#', pages * page);

	return p;
}

TEST_F(vsock_zerocopy, memfd_sender_is_copied)
{
	struct vm_sockets_zerocopy arg;
	char *p;
	int fd;

	MAP(PAGES);
	ASSERT_TRUE(enable_zerocopy(self->snd));
	p = map_memfd(&fd, 2);
	ASSERT_TRUE(p != MAP_FAILED);
	memcpy(p + 50, at(0), 100);
	ASSERT_EQ(100, send(self->snd, p + 50, 100, MSG_ZEROCOPY));
	ASSERT_TRUE(add_message(&self->flow, 100, 0));
	ARRIVED();

	/* take() sees that nothing of the page around it is there. */
	arg = TAKE(self->p, PAGES);
	EXPECT_EQ(100, arg.bytes);
	EXPECT_EQ(100, arg.copied);
	EXPECT_TRUE(reap_notification(self->snd));
	memset(p, '!', page);
	EXPECT_TRUE(is_pattern(self->p + page, 100, 0));
	EXPECT_TRUE(is_zero(self->p + page + 100, page - 100));
	ASSERT_EQ(0, ftruncate(fd, 0));
	EXPECT_TRUE(is_pattern(self->p + page, 100, 0));
	ASSERT_EQ(0, munmap(self->p, PAGES * page));
	close(fd);
}

TEST_F(vsock_zerocopy, memfd_sender_of_whole_pages_is_copied)
{
	struct vm_sockets_zerocopy arg;
	size_t pages = 12;
	char *p;
	int fd;

	MAP(PAGES);
	ASSERT_TRUE(enable_zerocopy(self->snd));
	p = map_memfd(&fd, pages);
	ASSERT_TRUE(p != MAP_FAILED);
	memcpy(p, at(0), pages * page);
	ASSERT_EQ(pages * page, send(self->snd, p, pages * page, MSG_ZEROCOPY));
	ASSERT_TRUE(add_message(&self->flow, pages * page, 0));
	ARRIVED();

	/* In two pieces: the second begins inside of the packet. */
	arg = TAKE(self->p, 6);
	EXPECT_EQ(5 * page, arg.copied);
	arg = TAKE(self->p + 10 * page, PAGES - 10);
	EXPECT_EQ((pages - 5) * page, arg.copied);
	EXPECT_TRUE(reap_notification(self->snd));
	memset(p, '!', pages * page);
	EXPECT_TRUE(is_pattern(self->p + page, 5 * page, 0));
	EXPECT_TRUE(is_pattern(self->p + 11 * page, (pages - 5) * page,
			       5 * page));
	ASSERT_EQ(0, ftruncate(fd, 0));
	EXPECT_TRUE(is_pattern(self->p + page, 5 * page, 0));
	close(fd);
}

TEST_F(vsock_zerocopy, anonymous_sender_is_copied)
{
	struct vm_sockets_zerocopy arg;
	size_t pages = 8;
	char *p;

	MAP(PAGES);
	ASSERT_TRUE(enable_zerocopy(self->snd));
	p = mmap(NULL, pages * page, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_TRUE(p != MAP_FAILED);
	memcpy(p, at(0), pages * page);
	ASSERT_EQ(pages * page, send(self->snd, p, pages * page, MSG_ZEROCOPY));
	ASSERT_TRUE(add_message(&self->flow, pages * page, 0));
	ARRIVED();

	/* Partly by recv(): the rest is the sender's still. */
	if (STREAM)
		EXPECT_EQ(100, RECV(100, 0));
	arg = TAKE(self->p, PAGES);
	EXPECT_EQ(arg.bytes, arg.copied);
	EXPECT_EQ(self->flow.sent, self->flow.got);
	EXPECT_TRUE(reap_notification(self->snd));
	memset(p, '!', pages * page);
	EXPECT_TRUE(is_pattern(self->p + page, arg.bytes,
			       self->flow.got - arg.bytes));
	munmap(p, pages * page);
}

static struct io_uring_cqe *next_cqe(struct io_uring *ring)
{
	struct pollfd pfd = { .fd = ring->ring_fd, .events = POLLIN };
	struct io_uring_cq *cq = &ring->cq;
	long long end = now_ms() + DEADLINE_MS;

	for (;;) {
		read_barrier();
		if (*cq->khead != *cq->ktail)
			return &cq->cqes[*cq->khead & *cq->kring_mask];
		if (now_ms() > end)
			return NULL;
		poll(&pfd, 1, 10);
		/* Runs what the kernel has deferred to this task. */
		io_uring_enter(ring->ring_fd, 0, 0, IORING_ENTER_GETEVENTS,
			       NULL);
	}
}

TEST_F(vsock_zerocopy, registered_buffer_of_io_uring_is_copied)
{
	static const size_t offset[] = { 50, 0 }, len[] = { 100, 5 * 4096 };
	struct vm_sockets_zerocopy arg;
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	struct io_uring ring;
	struct iovec iov;
	__u64 start;
	size_t i;
	char *p;
	int fd;

	if (io_uring_queue_init(4, &ring, 0))
		SKIP(return, "no io_uring: %s", strerror(errno));
	MAP(PAGES);
	p = map_memfd(&fd, 8);
	ASSERT_TRUE(p != MAP_FAILED);
	iov.iov_base = p;
	iov.iov_len = 8 * page;
	ASSERT_EQ(0, io_uring_register_buffers(&ring, &iov, 1));

	for (i = 0; i < ARRAY_SIZE(len); i++) {
		start = self->flow.sent;
		memset(p, '#', 8 * page);
		memcpy(p + offset[i], at(start), len[i]);
		sqe = io_uring_get_sqe(&ring);
		ASSERT_TRUE(!!sqe);
		io_uring_prep_sendzc(sqe, self->snd, p + offset[i], len[i], 0,
				     IORING_RECVSEND_FIXED_BUF);
		ASSERT_EQ(1, io_uring_submit(&ring));
		cqe = next_cqe(&ring);
		ASSERT_TRUE(!!cqe);
		ASSERT_EQ(len[i], cqe->res);
		ASSERT_TRUE(cqe->flags & IORING_CQE_F_MORE);
		io_uring_cqe_seen(&ring);
		ASSERT_TRUE(add_message(&self->flow, len[i], 0));
		ARRIVED();

		arg = TAKE(self->p, PAGES);
		EXPECT_EQ(len[i], arg.bytes);
		EXPECT_EQ(len[i], arg.copied);
		cqe = next_cqe(&ring);
		ASSERT_TRUE(!!cqe);
		ASSERT_TRUE(cqe->flags & IORING_CQE_F_NOTIF);
		io_uring_cqe_seen(&ring);
		memset(p, '!', 8 * page);
		EXPECT_TRUE(is_pattern(self->p + page, len[i], start));
	}
	io_uring_queue_exit(&ring);
	ASSERT_EQ(0, ftruncate(fd, 0));
	EXPECT_TRUE(is_pattern(self->p + page, len[1], 100));
	close(fd);
}

/* ---------- long transfers ---------- */

struct sender {
	pthread_t thread;
	int fd;
	struct flow flow;
	size_t *sizes;
	size_t count;
	bool failed;
};

static void *send_all(void *arg)
{
	struct sender *s = arg;
	__u64 pos = 0;
	size_t i;

	for (i = 0; i < s->count && !s->failed; i++) {
		size_t done = 0;

		while (done < s->sizes[i]) {
			ssize_t n = send(s->fd, at(pos + done),
					 s->sizes[i] - done, MSG_NOSIGNAL);

			if (n <= 0) {
				s->failed = true;
				break;
			}
			done += n;
		}
		pos += s->sizes[i];
	}

	return NULL;
}

/* Lengths from 1 to @limit, some of them whole pages, @total bytes in all. */
static bool start_sender(struct sender *s, int fd, int type, __u64 total,
			 size_t limit, __u32 *seed)
{
	__u64 sum = 0;
	size_t len;

	memset(s, 0, sizeof(*s));
	s->fd = fd;
	s->flow.type = type;
	s->flow.busy = true;
	while (sum < total) {
		len = 1 + rnd(seed, limit);
		if (len > page && !rnd(seed, 2))
			len -= len % page;
		if (len > total - sum)
			len = total - sum;
		if (!(s->count & (s->count + 1))) {
			s->sizes = realloc(s->sizes, 2 * (s->count + 1) *
						     sizeof(*s->sizes));
			if (!s->sizes)
				return false;
		}
		s->sizes[s->count++] = len;
		if (!add_message(&s->flow, len, 0))
			return false;
		sum += len;
	}

	return !pthread_create(&s->thread, NULL, send_all, s);
}

static __u64 megabytes(__u64 otherwise)
{
	return env("VSOCK_ZEROCOPY_MB", otherwise) << 20;
}

/* The end of a transfer: nothing is queued and no credit was lost. */
static void end_transfer(struct __test_metadata *_metadata, struct sender *s,
			 int rcv, size_t window)
{
	const struct timeval tv = { .tv_sec = DEADLINE_MS / 1000 };
	struct flow *flow = &s->flow;

	ASSERT_EQ(0, pthread_join(s->thread, NULL));
	ASSERT_FALSE(s->failed);
	ASSERT_EQ(flow->sent, flow->got);
	ASSERT_EQ(0, queued(rcv));

	ASSERT_EQ(0, setsockopt(s->fd, SOL_SOCKET, SO_SNDTIMEO, &tv,
				sizeof(tv)));
	while (window) {
		size_t len = window < 65536 ? window : 65536;

		ASSERT_TRUE(send_next(s->fd, flow, len, MSG_NOSIGNAL));
		window -= len;
	}
	recv_all(_metadata, rcv, flow);
	free(s->sizes);
	free(flow->messages);
}

#define WINDOW	(256 * 1024)

TEST_F_TIMEOUT(vsock_zerocopy, transfer_by_mapping_alone, 300)
{
	__u32 seed = env("VSOCK_ZEROCOPY_SEED", 1);
	struct sender s;

	MAP(PAGES);
	ASSERT_TRUE(start_sender(&s, self->snd, variant->type, megabytes(64),
				 128 * 1024, &seed));
	while (s.flow.got < s.flow.sent) {
		ASSERT_TRUE(wait_event(self->rcv, POLLIN))
			TH_LOG("stall at %llu",
			       (unsigned long long)s.flow.got);
		take(_metadata, self->rcv, &s.flow, self->p,
		     2 + rnd(&seed, PAGES - 1));
	}
	end_transfer(_metadata, &s, self->rcv, WINDOW);
}

TEST_F_TIMEOUT(vsock_zerocopy, transfer_in_any_mixture, 300)
{
	__u32 seed = env("VSOCK_ZEROCOPY_SEED", 1), start = seed;
	struct vm_sockets_zerocopy arg;
	struct sender s;
	size_t pages;

	MAP(PAGES);
	ASSERT_TRUE(start_sender(&s, self->snd, variant->type, megabytes(32),
				 70000, &seed));
	while (s.flow.got < s.flow.sent) {
		ASSERT_TRUE(wait_event(self->rcv, POLLIN))
			TH_LOG("seed %u: stall at %llu", start,
			       (unsigned long long)s.flow.got);
		switch (rnd(&seed, 4)) {
		case 0:
			take_recv(_metadata, self->rcv, &s.flow,
				  STREAM ? 1 + rnd(&seed, 20000) : SLICE, 0);
			break;
		case 1:
			take_recv(_metadata, self->rcv, &s.flow,
				  1 + rnd(&seed, 20000), MSG_PEEK);
			break;
		default:
			pages = 2 + rnd(&seed, PAGES - 1);
			arg = range(self->p + rnd(&seed, PAGES - pages + 1) *
				    page, pages);
			take_arg(_metadata, self->rcv, &s.flow, &arg);
		}
	}
	end_transfer(_metadata, &s, self->rcv, WINDOW);
}

/* A page for each byte would be 4096 times what the window says. */
TEST_F_TIMEOUT(vsock_zerocopy, flood_of_single_bytes, 300)
{
	__u32 seed = env("VSOCK_ZEROCOPY_SEED", 1);
	size_t bytes = 20000, calls = 0;
	struct sender s;

	/* The room that a message takes besides its bytes has no credit. */
	if (MESSAGES)
		SKIP(return, "so many messages break the connection");

	MAP(PAGES);
	ASSERT_TRUE(start_sender(&s, self->snd, variant->type, bytes, 1,
				 &seed));
	while (s.flow.got < s.flow.sent) {
		/* Let some of them queue up. */
		if (calls++ % 8 == 0)
			usleep(2000);
		ASSERT_TRUE(wait_event(self->rcv, POLLIN))
			TH_LOG("stall at %llu",
			       (unsigned long long)s.flow.got);
		take(_metadata, self->rcv, &s.flow, self->p, PAGES);
	}
	end_transfer(_metadata, &s, self->rcv, WINDOW / 2);
}

struct remapper {
	pthread_t thread;
	int fd;
	char *p;
	bool stop;
	bool failed;
};

/* Takes the mapping away, a part of it or all, and puts it back. */
static void *remap(void *arg)
{
	struct remapper *r = arg;
	__u32 seed = 7;

	while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) {
		if (!map_at(r->p, r->fd, PAGES))
			r->failed = true;
		usleep(rnd(&seed, 300));
		switch (rnd(&seed, 4)) {
		case 0:
			munmap(r->p, PAGES * page);
			break;
		case 1:
			munmap(r->p + PAGES / 2 * page, PAGES / 2 * page);
			break;
		case 2:
			madvise(r->p, PAGES * page, MADV_DONTNEED);
			break;
		default:
			if (mmap(r->p, PAGES * page, PROT_NONE, MAP_PRIVATE |
				 MAP_ANONYMOUS | MAP_FIXED, -1, 0) != r->p)
				r->failed = true;
		}
		usleep(rnd(&seed, 100));
	}

	return NULL;
}

TEST_F_TIMEOUT(vsock_zerocopy, mapping_replaced_while_receiving, 300)
{
	__u32 seed = env("VSOCK_ZEROCOPY_SEED", 1);
	static struct virtio_vsock_usr_hdr hdr[512];
	static char copy[PAGES * 4096];
	struct vm_sockets_zerocopy arg;
	size_t seen = 0, mapped = 0;
	struct remapper r = { };
	struct sender s;

	if (page != 4096)
		SKIP(return, "pages of 4096 bytes only");

	ASSERT_EQ(0, opt_in(self->rcv, 1));
	r.fd = self->rcv;
	r.p = map(self->rcv, PAGES);
	ASSERT_TRUE(r.p != MAP_FAILED);
	ASSERT_TRUE(start_sender(&s, self->snd, variant->type, megabytes(16),
				 70000, &seed));
	ASSERT_EQ(0, pthread_create(&r.thread, NULL, remap, &r));

	while (s.flow.got < s.flow.sent) {
		size_t used = 1, i;
		__u64 sum = 0;

		ASSERT_TRUE(wait_event(self->rcv, POLLIN))
			TH_LOG("stall at %llu",
			       (unsigned long long)s.flow.got);
		arg = range(r.p, PAGES);
		if (fill_range(self->rcv, &arg)) {
			ASSERT_EQ(EINVAL, errno);
			if (!rnd(&seed, 4))
				take_recv(_metadata, self->rcv, &s.flow, SLICE,
					  0);
			continue;
		}
		mapped += arg.bytes;

		/* Whatever of it is still there is right. */
		if (try_copy(hdr, r.p, sizeof(hdr))) {
			s.flow.got += arg.bytes;
			while (s.flow.next < s.flow.count &&
			       s.flow.messages[s.flow.next].end <= s.flow.got)
				s.flow.next++;
			continue;
		}
		for (i = 0; i < arg.headers; i++) {
			size_t len = hdr[i].len, n;

			for (n = 0; n < len; n += page, used++) {
				size_t some = len - n < page ? len - n : page;

				if (try_copy(copy, r.p + used * page, page))
					continue;
				ASSERT_TRUE(is_pattern(copy, some,
						       s.flow.got + n));
				ASSERT_TRUE(is_zero(copy + some, page - some));
				seen += some;
			}
			account(_metadata, &s.flow, len,
				hdr[i].flags & VIRTIO_VSOCK_SEQ_EOM,
				hdr[i].flags & VIRTIO_VSOCK_SEQ_EOR);
			sum += len;
		}
		ASSERT_EQ(arg.bytes, sum);
	}
	__atomic_store_n(&r.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(r.thread, NULL));
	ASSERT_FALSE(r.failed);
	/* Otherwise nothing has been tried. */
	EXPECT_LT(0, mapped);
	EXPECT_LT(0, seen);
	end_transfer(_metadata, &s, self->rcv, WINDOW);
}

struct filler {
	pthread_t thread;
	struct flow *flow;
	int fd;
	bool *stop;
	__u64 bytes;
	bool failed;
};

/* Counts what it gets; which bytes these are is not known. */
static void *fill_own_mapping(void *arg)
{
	struct filler *f = arg;
	char *p = map(f->fd, PAGES);

	f->failed = p == MAP_FAILED;
	while (!f->failed && !__atomic_load_n(f->stop, __ATOMIC_RELAXED)) {
		struct vm_sockets_zerocopy a = range(p, PAGES);

		f->failed = fill_range(f->fd, &a);
		__atomic_add_fetch(&f->bytes, a.bytes, __ATOMIC_RELAXED);
		if (!a.bytes)
			usleep(100);
	}

	return NULL;
}

static __u64 filled(struct filler *f, size_t count)
{
	__u64 bytes = 0;

	while (count--)
		bytes += __atomic_load_n(&f[count].bytes, __ATOMIC_RELAXED);
	return bytes;
}

/* No byte twice and none lost when several threads fill at once. */
TEST_F_TIMEOUT(vsock_zerocopy, threads_with_a_mapping_each, 300)
{
	__u32 seed = env("VSOCK_ZEROCOPY_SEED", 1);
	struct filler f[3] = { };
	struct sender s;
	bool stop = false;
	size_t i;

	ASSERT_EQ(0, opt_in(self->rcv, 1));
	ASSERT_TRUE(start_sender(&s, self->snd, variant->type, megabytes(16),
				 70000, &seed));
	for (i = 0; i < ARRAY_SIZE(f); i++) {
		f[i].fd = self->rcv;
		f[i].stop = &stop;
		ASSERT_EQ(0, pthread_create(&f[i].thread, NULL,
					    fill_own_mapping, &f[i]));
	}
	ASSERT_EQ(0, pthread_join(s.thread, NULL));
	ASSERT_FALSE(s.failed);
	/* An empty queue is not the end: packets may be on their way. */
	for (i = 0; i < 30000 && filled(f, ARRAY_SIZE(f)) != s.flow.sent; i++)
		usleep(1000);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < ARRAY_SIZE(f); i++) {
		ASSERT_EQ(0, pthread_join(f[i].thread, NULL));
		EXPECT_FALSE(f[i].failed);
	}
	EXPECT_EQ(s.flow.sent, filled(f, ARRAY_SIZE(f)));
	EXPECT_EQ(0, queued(self->rcv));
}

TEST_HARNESS_MAIN
