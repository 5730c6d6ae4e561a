// SPDX-License-Identifier: GPL-2.0-only
/*
 * What an AF_VSOCK socket says about its receive queue.
 *
 * With SO_INQ set, each successful recvmsg() carries one SCM_INQ control
 * message: an int that describes what is left after that call.
 *
 *  - SOCK_STREAM: the bytes still queued, the number that SIOCINQ gives;
 *  - SOCK_SEQPACKET: 1 when a whole message is queued, never a byte count;
 *  - both: 1 when nothing is queued and the next receive returns at once all
 *    the same (end of stream, pending error), 0 when it would block.
 *
 * Everything runs over the loopback transport.  A socket in a BPF sockmap
 * keeps data outside of the transport's queue; the sockmap fixture looks at
 * that case, also through io_uring, which uses the same number as a hint.
 */

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/bpf.h>
#include <linux/errqueue.h>
#include <linux/sockios.h>
#include <linux/vm_sockets.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
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

/* Not a value that SCM_INQ can have. */
#define NO_INQ		(-1000)

#define DEADLINE_MS	5000

struct result {
	ssize_t ret;
	int err;		/* errno of a failed call */
	int inq;		/* value of SCM_INQ, or NO_INQ */
	int cmsgs;		/* control messages of any kind */
	int flags;		/* msg_flags */
};

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

/* One recvmsg() that never blocks. */
static struct result receive(int fd, void *buf, size_t len, int flags)
{
	union {
		char buf[256];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = buf, .iov_len = len };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct result res = { .inq = NO_INQ };
	struct cmsghdr *cmsg;

	memset(&control, 0, sizeof(control));
	errno = 0;
	res.ret = recvmsg(fd, &msg, flags | MSG_DONTWAIT);
	res.err = errno;
	res.flags = msg.msg_flags;
	if (res.ret < 0)
		return res;

	for (cmsg = CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg)) {
		res.cmsgs++;
		if (cmsg->cmsg_level == SOL_SOCKET &&
		    cmsg->cmsg_type == SCM_INQ &&
		    cmsg->cmsg_len == CMSG_LEN(sizeof(int)))
			memcpy(&res.inq, CMSG_DATA(cmsg), sizeof(int));
	}

	return res;
}

/* Bytes that SIOCINQ counts, for both socket types. */
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

static bool wait_event(int fd, short events)
{
	struct pollfd pfd = { .fd = fd, .events = events };

	return poll(&pfd, 1, DEADLINE_MS) == 1 && (pfd.revents & events);
}

static int set_inq(int fd, int val)
{
	return setsockopt(fd, SOL_SOCKET, SO_INQ, &val, sizeof(val));
}

static int set_buffer_size(int fd, unsigned long long size)
{
	return setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_SIZE, &size,
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
	    listen(fd, 1)) {
		close(fd);
		return -1;
	}

	return fd;
}

static int connect_local(int type, const struct sockaddr_vm *addr)
{
	int fd = socket(AF_VSOCK, type, 0);

	if (fd < 0)
		return -1;

	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr))) {
		close(fd);
		return -1;
	}

	return fd;
}

/* Neither the loopback transport nor vsock itself is built in everywhere. */
static bool no_loopback(int err)
{
	return err == EAFNOSUPPORT || err == EADDRNOTAVAIL || err == ENODEV ||
	       err == ENETUNREACH || err == ESOCKTNOSUPPORT;
}

FIXTURE(vsock_inq)
{
	struct sockaddr_vm addr;
	int listener;
	int snd;
	int rcv;
	char out[4096];
	char in[4096];
};

FIXTURE_VARIANT(vsock_inq)
{
	int type;
};

FIXTURE_VARIANT_ADD(vsock_inq, stream)
{
	.type = SOCK_STREAM,
};

FIXTURE_VARIANT_ADD(vsock_inq, seqpacket)
{
	.type = SOCK_SEQPACKET,
};

FIXTURE_SETUP(vsock_inq)
{
	unsigned int i;

	self->snd = -1;
	self->rcv = -1;

	for (i = 0; i < sizeof(self->out); i++)
		self->out[i] = i * 7 + (i >> 8);

	self->listener = listen_local(variant->type, &self->addr);
	if (self->listener < 0 && no_loopback(errno))
		SKIP(return, "no vsock loopback: %s", strerror(errno));
	ASSERT_LE(0, self->listener);

	self->snd = connect_local(variant->type, &self->addr);
	ASSERT_LE(0, self->snd);
	self->rcv = accept(self->listener, NULL, NULL);
	ASSERT_LE(0, self->rcv);
}

FIXTURE_TEARDOWN(vsock_inq)
{
	close(self->snd);
	close(self->rcv);
	close(self->listener);
}

/* What is said of @bytes in the queue, when they end with a message. */
static int rest(int type, int bytes)
{
	return type == SOCK_STREAM ? bytes : bytes > 0;
}

static bool sent(int fd, const void *buf, ssize_t len)
{
	return send(fd, buf, len, 0) == len;
}

#define REST(bytes)	rest(variant->type, bytes)
#define SEND(len)	ASSERT_TRUE(sent(self->snd, self->out, len))
#define ENABLE()	ASSERT_EQ(0, set_inq(self->rcv, 1))

TEST_F(vsock_inq, setsockopt_takes_0_and_1)
{
	EXPECT_EQ(0, set_inq(self->rcv, 1));
	EXPECT_EQ(0, set_inq(self->rcv, 1));
	EXPECT_EQ(0, set_inq(self->rcv, 0));
}

TEST_F(vsock_inq, setsockopt_refuses_other_values)
{
	EXPECT_EQ(-1, set_inq(self->rcv, 2));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, set_inq(self->rcv, -1));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(vsock_inq, setsockopt_refuses_short_value)
{
	int one = 1;

	EXPECT_EQ(0, set_inq(self->rcv, 1));
	EXPECT_EQ(-1, setsockopt(self->rcv, SOL_SOCKET, SO_INQ, &one, 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, setsockopt(self->rcv, SOL_SOCKET, SO_INQ, &one, 0));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F(vsock_inq, refused_value_changes_nothing)
{
	struct result res;

	ENABLE();
	EXPECT_EQ(-1, set_inq(self->rcv, 2));
	SEND(100);
	ASSERT_TRUE(wait_queued(self->rcv, 100));

	res = receive(self->rcv, self->in, 100, 0);
	EXPECT_EQ(100, res.ret);
	EXPECT_EQ(0, res.inq);
}

TEST_F(vsock_inq, option_works_before_connect)
{
	int fd = socket(AF_VSOCK, variant->type, 0);

	ASSERT_LE(0, fd);
	EXPECT_EQ(0, set_inq(fd, 1));
	close(fd);
}

TEST_F(vsock_inq, never_set_no_cmsg)
{
	struct result res;

	SEND(100);
	ASSERT_TRUE(wait_queued(self->rcv, 100));

	res = receive(self->rcv, self->in, 40, 0);
	EXPECT_EQ(40, res.ret);
	EXPECT_EQ(0, res.cmsgs);
	EXPECT_EQ(0, res.flags & MSG_CTRUNC);
}

TEST_F(vsock_inq, cleared_again_no_cmsg)
{
	struct result res;

	ENABLE();
	ASSERT_EQ(0, set_inq(self->rcv, 0));
	SEND(100);
	ASSERT_TRUE(wait_queued(self->rcv, 100));

	res = receive(self->rcv, self->in, 40, 0);
	EXPECT_EQ(40, res.ret);
	EXPECT_EQ(0, res.cmsgs);
}

TEST_F(vsock_inq, partial_read_leaves_rest)
{
	struct result res;

	ENABLE();
	SEND(100);
	ASSERT_TRUE(wait_queued(self->rcv, 100));

	res = receive(self->rcv, self->in, 40, 0);
	EXPECT_EQ(40, res.ret);
	EXPECT_EQ(1, res.cmsgs);
	EXPECT_EQ(queued(self->rcv), res.inq);

	/* The end of a message that did not fit is gone. */
	if (variant->type == SOCK_STREAM) {
		EXPECT_EQ(60, res.inq);
	} else {
		EXPECT_EQ(0, res.inq);
		EXPECT_TRUE(res.flags & MSG_TRUNC);
	}
}

TEST_F(vsock_inq, agrees_with_siocinq_all_the_way)
{
	int total = sizeof(self->out), got = 0, step = 0, i;
	struct result res;

	ENABLE();
	for (i = 0; i < total; i += 256)
		ASSERT_EQ(256, send(self->snd, self->out + i, 256, 0));
	ASSERT_TRUE(wait_queued(self->rcv, total));

	while (got < total) {
		/* A message is read whole, a stream in any pieces. */
		step = variant->type == SOCK_STREAM ? step * 3 + 1 : 256;
		if (step > total - got)
			step = total - got;

		res = receive(self->rcv, self->in + got, step, 0);
		ASSERT_EQ(step, res.ret);
		got += res.ret;
		ASSERT_EQ(REST(total - got), res.inq);
		ASSERT_EQ(REST(queued(self->rcv)), res.inq);
	}

	EXPECT_EQ(0, memcmp(self->out, self->in, total));
}

TEST_F(vsock_inq, drained_while_connected_0)
{
	struct result res;

	ENABLE();
	SEND(100);
	ASSERT_TRUE(wait_queued(self->rcv, 100));

	res = receive(self->rcv, self->in, sizeof(self->in), 0);
	EXPECT_EQ(100, res.ret);
	EXPECT_EQ(1, res.cmsgs);
	EXPECT_EQ(0, res.inq);
}

TEST_F(vsock_inq, another_message_queued)
{
	struct result res;

	ENABLE();
	SEND(100);
	SEND(300);
	ASSERT_TRUE(wait_queued(self->rcv, 400));

	res = receive(self->rcv, self->in, 100, 0);
	EXPECT_EQ(100, res.ret);
	EXPECT_EQ(REST(300), res.inq);

	res = receive(self->rcv, self->in, 300, 0);
	EXPECT_EQ(300, res.ret);
	EXPECT_EQ(0, res.inq);
}

TEST_F(vsock_inq, cut_short_another_message_queued)
{
	struct result res;

	ENABLE();
	SEND(100);
	SEND(300);
	ASSERT_TRUE(wait_queued(self->rcv, 400));

	res = receive(self->rcv, self->in, 10, 0);
	EXPECT_EQ(10, res.ret);
	EXPECT_EQ(REST(390), res.inq);

	/* The second message is cut short in turn, and was the last. */
	res = receive(self->rcv, self->in, 10, 0);
	EXPECT_EQ(10, res.ret);
	EXPECT_EQ(variant->type == SOCK_STREAM ? 380 : 0, res.inq);
}

/* Bytes of a message whose end has not come are nothing to receive. */
TEST_F(vsock_inq, window_full_incomplete_message)
{
	static char big[48 * 1024];
	bool stream = variant->type == SOCK_STREAM;
	struct result res;

	ENABLE();
	ASSERT_EQ(0, set_buffer_size(self->snd, 64 * 1024));
	SEND(1000);

	/* Two of these exceed the window: the second stops half way. */
	ASSERT_EQ(sizeof(big), send(self->snd, big, sizeof(big), 0));
	ASSERT_EQ(stream ? 64 * 1024 - 1000 - sizeof(big) : -1,
		  send(self->snd, big, sizeof(big), MSG_DONTWAIT));
	ASSERT_TRUE(wait_queued(self->rcv, 64 * 1024));

	res = receive(self->rcv, self->in, 1000, 0);
	EXPECT_EQ(1000, res.ret);
	EXPECT_EQ(REST(63 * 1024 + 24), res.inq);

	res = receive(self->rcv, big, sizeof(big), 0);
	EXPECT_EQ(sizeof(big), res.ret);
	EXPECT_EQ(stream ? 15 * 1024 + 24 : 0, res.inq);
	EXPECT_EQ(15 * 1024 + 24, queued(self->rcv));

	res = receive(self->rcv, big, sizeof(big), 0);
	EXPECT_EQ(stream ? 15 * 1024 + 24 : -1, res.ret);
}

TEST_F(vsock_inq, peer_shut_down_data_left)
{
	struct result res;

	ENABLE();
	SEND(100);
	SEND(50);
	ASSERT_EQ(0, shutdown(self->snd, SHUT_WR));
	ASSERT_TRUE(wait_event(self->rcv, POLLRDHUP));

	res = receive(self->rcv, self->in, 100, 0);
	EXPECT_EQ(100, res.ret);
	EXPECT_EQ(REST(50), res.inq);
}

TEST_F(vsock_inq, peer_shut_down_drained_1)
{
	struct result res;

	ENABLE();
	SEND(100);
	ASSERT_EQ(0, shutdown(self->snd, SHUT_WR));
	ASSERT_TRUE(wait_event(self->rcv, POLLRDHUP));

	res = receive(self->rcv, self->in, 100, 0);
	EXPECT_EQ(100, res.ret);
	EXPECT_EQ(1, res.inq);

	/* What 1 promised: the next receive does not block. */
	res = receive(self->rcv, self->in, 100, 0);
	EXPECT_EQ(0, res.ret);
	EXPECT_EQ(1, res.inq);
}

TEST_F(vsock_inq, peer_closed_drained_1)
{
	struct result res;

	ENABLE();
	SEND(100);
	ASSERT_EQ(0, close(self->snd));
	self->snd = -1;
	ASSERT_TRUE(wait_event(self->rcv, POLLRDHUP));

	res = receive(self->rcv, self->in, 100, 0);
	EXPECT_EQ(100, res.ret);
	EXPECT_EQ(1, res.inq);

	res = receive(self->rcv, self->in, 100, 0);
	EXPECT_EQ(0, res.ret);
	EXPECT_EQ(1, res.inq);
}

/* Nothing was ever queued: the socket is done, in another state than above. */
TEST_F(vsock_inq, peer_closed_nothing_sent_1)
{
	struct result res;

	ENABLE();
	ASSERT_EQ(0, close(self->snd));
	self->snd = -1;
	ASSERT_TRUE(wait_event(self->rcv, POLLRDHUP));

	res = receive(self->rcv, self->in, 100, 0);
	EXPECT_EQ(0, res.ret);
	EXPECT_EQ(1, res.inq);
}

TEST_F(vsock_inq, own_shutdown_1)
{
	struct result res;

	ENABLE();
	ASSERT_EQ(0, shutdown(self->rcv, SHUT_RD));

	res = receive(self->rcv, self->in, 100, 0);
	EXPECT_EQ(0, res.ret);
	EXPECT_EQ(1, res.inq);
}

TEST_F(vsock_inq, own_send_shutdown_0)
{
	struct result res;

	ENABLE();
	SEND(100);
	ASSERT_EQ(0, shutdown(self->rcv, SHUT_WR));
	ASSERT_TRUE(wait_queued(self->rcv, 100));

	res = receive(self->rcv, self->in, 100, 0);
	EXPECT_EQ(100, res.ret);
	EXPECT_EQ(0, res.inq);
}

TEST_F(vsock_inq, peek_describes_what_stays)
{
	struct result res;

	ENABLE();
	SEND(100);
	ASSERT_TRUE(wait_queued(self->rcv, 100));

	res = receive(self->rcv, self->in, 40, MSG_PEEK);
	EXPECT_EQ(40, res.ret);
	EXPECT_EQ(REST(100), res.inq);

	res = receive(self->rcv, self->in, sizeof(self->in), MSG_PEEK);
	EXPECT_EQ(100, res.ret);
	EXPECT_EQ(REST(100), res.inq);

	res = receive(self->rcv, self->in, sizeof(self->in), 0);
	EXPECT_EQ(100, res.ret);
	EXPECT_EQ(0, res.inq);
}

TEST_F(vsock_inq, trunc_flag_changes_no_hint)
{
	struct result res;

	ENABLE();
	SEND(100);
	SEND(10);
	ASSERT_TRUE(wait_queued(self->rcv, 110));

	/* It makes recvmsg() return a length, which is not what is left. */
	res = receive(self->rcv, self->in, 20, MSG_TRUNC);
	EXPECT_EQ(variant->type == SOCK_STREAM ? 20 : 100, res.ret);
	EXPECT_EQ(REST(90), res.inq);

	res = receive(self->rcv, self->in, 5, MSG_TRUNC);
	EXPECT_EQ(variant->type == SOCK_STREAM ? 5 : 10, res.ret);
	EXPECT_EQ(variant->type == SOCK_STREAM ? 85 : 0, res.inq);
}

TEST_F(vsock_inq, zero_length_describes_queue)
{
	struct result res;

	ENABLE();
	res = receive(self->rcv, self->in, 0, 0);
	EXPECT_EQ(0, res.ret);
	EXPECT_EQ(0, res.inq);

	SEND(100);
	ASSERT_TRUE(wait_queued(self->rcv, 100));
	res = receive(self->rcv, self->in, 0, 0);
	EXPECT_EQ(0, res.ret);
	EXPECT_EQ(REST(100), res.inq);
	EXPECT_EQ(100, queued(self->rcv));
}

TEST_F(vsock_inq, failed_receive_no_cmsg)
{
	struct result res;

	ENABLE();
	res = receive(self->rcv, self->in, 100, 0);
	EXPECT_EQ(-1, res.ret);
	EXPECT_EQ(EAGAIN, res.err);
	EXPECT_EQ(0, res.cmsgs);

	res = receive(self->rcv, self->in, 100, MSG_OOB);
	EXPECT_EQ(-1, res.ret);
	EXPECT_EQ(EOPNOTSUPP, res.err);
	EXPECT_EQ(0, res.cmsgs);
}

/* A failed recvmsg() does not write msg_controllen: look at the buffer. */
TEST_F(vsock_inq, failed_receive_leaves_control_buffer)
{
	struct iovec iov = { .iov_base = self->in, .iov_len = 100 };
	char control[64], before[64];
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};

	ENABLE();
	memset(control, 0x5a, sizeof(control));
	memset(before, 0x5a, sizeof(before));
	EXPECT_EQ(-1, recvmsg(self->rcv, &msg, MSG_DONTWAIT));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, memcmp(control, before, sizeof(control)));
}

TEST_F(vsock_inq, accepted_socket_inherits)
{
	struct result res;
	int snd, rcv;

	ASSERT_EQ(0, set_inq(self->listener, 1));
	snd = connect_local(variant->type, &self->addr);
	ASSERT_LE(0, snd);
	rcv = accept(self->listener, NULL, NULL);
	ASSERT_LE(0, rcv);

	ASSERT_EQ(100, send(snd, self->out, 100, 0));
	ASSERT_TRUE(wait_queued(rcv, 100));
	res = receive(rcv, self->in, 100, 0);
	EXPECT_EQ(100, res.ret);
	EXPECT_EQ(1, res.cmsgs);
	EXPECT_EQ(0, res.inq);

	/* The one accepted before, and the other end, have it not. */
	SEND(100);
	ASSERT_TRUE(wait_queued(self->rcv, 100));
	res = receive(self->rcv, self->in, 100, 0);
	EXPECT_EQ(100, res.ret);
	EXPECT_EQ(0, res.cmsgs);

	ASSERT_EQ(100, send(rcv, self->out, 100, 0));
	ASSERT_TRUE(wait_queued(snd, 100));
	res = receive(snd, self->in, 100, 0);
	EXPECT_EQ(100, res.ret);
	EXPECT_EQ(0, res.cmsgs);

	close(snd);
	close(rcv);
}

TEST_F(vsock_inq, connecting_socket_can_set_it_too)
{
	struct result res;

	ASSERT_EQ(0, set_inq(self->snd, 1));
	ASSERT_EQ(100, send(self->rcv, self->out, 100, 0));
	ASSERT_TRUE(wait_queued(self->snd, 100));

	res = receive(self->snd, self->in, 100, 0);
	EXPECT_EQ(100, res.ret);
	EXPECT_EQ(1, res.cmsgs);
	EXPECT_EQ(0, res.inq);
}

TEST_F(vsock_inq, no_control_buffer_ctrunc)
{
	struct iovec iov = { .iov_base = self->in, .iov_len = 40 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	ENABLE();
	SEND(100);
	ASSERT_TRUE(wait_queued(self->rcv, 100));

	EXPECT_EQ(40, recvmsg(self->rcv, &msg, MSG_DONTWAIT));
	EXPECT_TRUE(msg.msg_flags & MSG_CTRUNC);
	EXPECT_EQ(0, memcmp(self->out, self->in, 40));

	/* read() and recv() ask for no control message and lose nothing. */
	SEND(100);
	ASSERT_TRUE(wait_queued(self->rcv,
				variant->type == SOCK_STREAM ? 160 : 100));
	EXPECT_EQ(60, recv(self->rcv, self->in, 60, MSG_DONTWAIT));
	EXPECT_EQ(0, memcmp(self->out + (variant->type == SOCK_STREAM ? 40 : 0),
			    self->in, 60));
}

TEST_F(vsock_inq, short_control_buffer_ctrunc)
{
	struct iovec iov = { .iov_base = self->in, .iov_len = 100 };
	union {
		char buf[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(struct cmsghdr) - 1,
	};

	ENABLE();
	SEND(100);
	ASSERT_TRUE(wait_queued(self->rcv, 100));

	EXPECT_EQ(100, recvmsg(self->rcv, &msg, MSG_DONTWAIT));
	EXPECT_TRUE(msg.msg_flags & MSG_CTRUNC);
	EXPECT_EQ(0, msg.msg_controllen);
	EXPECT_EQ(0, memcmp(self->out, self->in, 100));
}

TEST_F(vsock_inq, error_queue_empty_no_cmsg)
{
	struct result res;

	ENABLE();
	SEND(100);
	ASSERT_TRUE(wait_queued(self->rcv, 100));

	res = receive(self->rcv, self->in, 100, MSG_ERRQUEUE);
	EXPECT_EQ(-1, res.ret);
	EXPECT_EQ(EAGAIN, res.err);
	EXPECT_EQ(0, res.cmsgs);
}

TEST_F(vsock_inq, error_queue_only_its_own_cmsg)
{
	long pagesize = sysconf(_SC_PAGESIZE);
	struct result res;
	int one = 1;
	void *page;

	ASSERT_EQ(0, set_inq(self->snd, 1));
	if (setsockopt(self->snd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)))
		SKIP(return, "no MSG_ZEROCOPY: %s", strerror(errno));

	page = mmap(NULL, pagesize, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	ASSERT_NE(MAP_FAILED, page);
	ASSERT_EQ(pagesize, send(self->snd, page, pagesize, MSG_ZEROCOPY));
	ASSERT_EQ(100, send(self->rcv, self->out, 100, 0));
	ASSERT_TRUE(wait_queued(self->snd, 100));

	/* The completion comes when the receiver has read the page. */
	ASSERT_TRUE(wait_queued(self->rcv, pagesize));
	res = receive(self->rcv, self->in, sizeof(self->in), 0);
	ASSERT_LT(0, res.ret);
	ASSERT_TRUE(wait_event(self->snd, POLLERR));

	res = receive(self->snd, self->in, 100, MSG_ERRQUEUE);
	EXPECT_EQ(0, res.ret);
	EXPECT_EQ(1, res.cmsgs);
	EXPECT_EQ(NO_INQ, res.inq);

	res = receive(self->snd, self->in, 100, 0);
	EXPECT_EQ(100, res.ret);
	EXPECT_EQ(0, res.inq);

	munmap(page, pagesize);
}

/*
 * Leave an error on the receiver: shrink its buffer under queued data, then
 * send before the peer has heard of it.  The loopback work runs on the CPU
 * that queued it, so a SCHED_FIFO task that stays there is always in time;
 * without that privilege it takes some attempts.
 */
static bool make_error(int snd, int rcv, const char *buf)
{
	struct sched_param fifo = { .sched_priority = 1 }, other = {};
	bool sent;
	cpu_set_t cpu;

	if (send(snd, buf, 1024, 0) != 1024 || !wait_queued(rcv, 1024))
		return false;

	CPU_ZERO(&cpu);
	CPU_SET(sched_getcpu(), &cpu);
	sched_setaffinity(0, sizeof(cpu), &cpu);
	sched_setscheduler(0, SCHED_FIFO, &fifo);
	sent = !set_buffer_size(rcv, 512) &&
	       send(snd, buf, 1, MSG_DONTWAIT) == 1;
	sched_setscheduler(0, SCHED_OTHER, &other);

	return sent && wait_event(rcv, POLLERR);
}

TEST_F(vsock_inq, pending_error_1)
{
	struct result res;
	int attempt;

	for (attempt = 0; attempt < 100; attempt++) {
		if (make_error(self->snd, self->rcv, self->out))
			break;

		close(self->snd);
		close(self->rcv);
		self->snd = connect_local(variant->type, &self->addr);
		ASSERT_LE(0, self->snd);
		self->rcv = accept(self->listener, NULL, NULL);
		ASSERT_LE(0, self->rcv);
	}
	ASSERT_GT(100, attempt);
	ENABLE();

	/* The message is still there and counts first. */
	res = receive(self->rcv, self->in, 0, 0);
	EXPECT_EQ(0, res.ret);
	EXPECT_EQ(REST(1024), res.inq);

	/* A stream gives its bytes before the error, a message is lost to it. */
	res = receive(self->rcv, self->in, 1024, 0);
	if (variant->type == SOCK_STREAM) {
		EXPECT_EQ(1024, res.ret);
		EXPECT_EQ(1, res.inq);
	} else {
		EXPECT_EQ(-1, res.ret);
		EXPECT_EQ(ENOBUFS, res.err);
		EXPECT_EQ(0, res.cmsgs);
	}

	res = receive(self->rcv, self->in, 0, 0);
	EXPECT_EQ(0, res.ret);
	EXPECT_EQ(1, res.inq);

	/*
	 * What 1 promised: the next receive does not block.  A stream returns
	 * the error, an empty queue of messages its end.
	 */
	res = receive(self->rcv, self->in, 100, 0);
	if (variant->type == SOCK_STREAM) {
		EXPECT_EQ(-1, res.ret);
		EXPECT_EQ(ENOBUFS, res.err);
		EXPECT_EQ(0, res.cmsgs);
	} else {
		EXPECT_EQ(0, res.ret);
		EXPECT_EQ(1, res.inq);
	}
}

TEST_F(vsock_inq, unconnected_socket_no_cmsg)
{
	struct result res;
	int fd;

	fd = socket(AF_VSOCK, variant->type, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, set_inq(fd, 1));

	res = receive(fd, self->in, 100, 0);
	EXPECT_EQ(-1, res.ret);
	EXPECT_EQ(ENOTCONN, res.err);
	EXPECT_EQ(0, res.cmsgs);

	res = receive(fd, self->in, 0, 0);
	EXPECT_EQ(-1, res.ret);
	EXPECT_EQ(0, res.cmsgs);

	close(fd);
}

TEST_F(vsock_inq, refused_connection_no_cmsg)
{
	struct sockaddr_vm nobody = self->addr;
	struct result res;
	int fd;

	/* The port of a listener that is gone. */
	fd = listen_local(variant->type, &nobody);
	ASSERT_LE(0, fd);
	close(fd);

	fd = socket(AF_VSOCK, variant->type, 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, set_inq(fd, 1));
	ASSERT_EQ(-1, connect(fd, (struct sockaddr *)&nobody, sizeof(nobody)));
	ASSERT_EQ(ECONNRESET, errno);

	res = receive(fd, self->in, 100, 0);
	EXPECT_EQ(-1, res.ret);
	EXPECT_EQ(ENOTCONN, res.err);
	EXPECT_EQ(0, res.cmsgs);
	close(fd);
}

TEST_F(vsock_inq, listening_socket_no_cmsg)
{
	struct result res;

	ASSERT_EQ(0, set_inq(self->listener, 1));
	res = receive(self->listener, self->in, 100, 0);
	EXPECT_EQ(-1, res.ret);
	EXPECT_EQ(ENOTCONN, res.err);
	EXPECT_EQ(0, res.cmsgs);
}

/* ---------- a socket in a sockmap ---------- */

static int bpf(int cmd, union bpf_attr *attr)
{
	return syscall(__NR_bpf, cmd, attr, sizeof(*attr));
}

static int sockmap_create(void)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_SOCKMAP;
	attr.key_size = sizeof(int);
	attr.value_size = sizeof(int);
	attr.max_entries = 1;

	return bpf(BPF_MAP_CREATE, &attr);
}

/*
 * return SK_PASS: the verdict that leaves data with the socket it came for,
 * but moves it to the psock.  (bpf_sk_redirect_map() with BPF_F_INGRESS
 * would be the same thing to the same socket; for vsock it drops.)
 */
static int load_pass_verdict(void)
{
	static const struct bpf_insn prog[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0,
		  .imm = SK_PASS },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_SK_SKB;
	attr.insns = (uintptr_t)prog;
	attr.insn_cnt = ARRAY_SIZE(prog);
	attr.license = (uintptr_t)"GPL";

	return bpf(BPF_PROG_LOAD, &attr);
}

static int attach_verdict(int map, int prog)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.target_fd = map;
	attr.attach_bpf_fd = prog;
	attr.attach_type = BPF_SK_SKB_VERDICT;

	return bpf(BPF_PROG_ATTACH, &attr);
}

static int sockmap_add(int map, int fd)
{
	union bpf_attr attr;
	int key = 0;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = map;
	attr.key = (uintptr_t)&key;
	attr.value = (uintptr_t)&fd;
	attr.flags = BPF_ANY;

	return bpf(BPF_MAP_UPDATE_ELEM, &attr);
}

/* Wait until a receive would give @bytes, wherever they are kept. */
static bool wait_readable(int fd, int bytes)
{
	long long end = now_ms() + DEADLINE_MS;
	static char buf[65536];

	while (recv(fd, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT) != bytes) {
		if (now_ms() > end)
			return false;
		sched_yield();
	}

	return true;
}

FIXTURE(vsock_inq_sockmap)
{
	struct sockaddr_vm addr;
	int listener;
	int snd;
	int rcv;
	int map;
	int prog;
	char out[4096];
	char in[4096];
};

FIXTURE_VARIANT(vsock_inq_sockmap)
{
	int type;
};

FIXTURE_VARIANT_ADD(vsock_inq_sockmap, stream)
{
	.type = SOCK_STREAM,
};

FIXTURE_VARIANT_ADD(vsock_inq_sockmap, seqpacket)
{
	.type = SOCK_SEQPACKET,
};

FIXTURE_SETUP(vsock_inq_sockmap)
{
	unsigned int i;

	self->snd = -1;
	self->rcv = -1;
	self->map = -1;
	self->prog = -1;

	for (i = 0; i < sizeof(self->out); i++)
		self->out[i] = i * 7 + (i >> 8);

	self->listener = listen_local(variant->type, &self->addr);
	if (self->listener < 0 && no_loopback(errno))
		SKIP(return, "no vsock loopback: %s", strerror(errno));
	ASSERT_LE(0, self->listener);

	self->map = sockmap_create();
	if (self->map < 0)
		SKIP(return, "no BPF sockmap: %s", strerror(errno));
	self->prog = load_pass_verdict();
	if (self->prog < 0)
		SKIP(return, "no BPF SK_SKB program: %s", strerror(errno));
	ASSERT_EQ(0, attach_verdict(self->map, self->prog));

	self->snd = connect_local(variant->type, &self->addr);
	ASSERT_LE(0, self->snd);
	self->rcv = accept(self->listener, NULL, NULL);
	ASSERT_LE(0, self->rcv);
}

FIXTURE_TEARDOWN(vsock_inq_sockmap)
{
	close(self->snd);
	close(self->rcv);
	close(self->listener);
	close(self->prog);
	close(self->map);
}

TEST_F(vsock_inq_sockmap, psock_data_counts)
{
	struct result res;

	ENABLE();
	ASSERT_EQ(0, sockmap_add(self->map, self->rcv));
	SEND(1000);
	ASSERT_TRUE(wait_readable(self->rcv, 1000));

	res = receive(self->rcv, self->in, 300, 0);
	EXPECT_EQ(300, res.ret);
	EXPECT_EQ(1, res.cmsgs);
	EXPECT_EQ(REST(700), res.inq);

	res = receive(self->rcv, self->in + 300, 100, MSG_PEEK);
	EXPECT_EQ(100, res.ret);
	EXPECT_EQ(REST(700), res.inq);

	res = receive(self->rcv, self->in + 300, 700, 0);
	EXPECT_EQ(700, res.ret);
	EXPECT_EQ(0, res.inq);
	EXPECT_EQ(0, memcmp(self->out, self->in, 1000));
}

TEST_F(vsock_inq_sockmap, several_messages_count)
{
	struct result res;
	int i;

	ENABLE();
	ASSERT_EQ(0, sockmap_add(self->map, self->rcv));
	for (i = 0; i < 5; i++)
		SEND(200);
	ASSERT_TRUE(wait_readable(self->rcv, 1000));

	for (i = 1; i <= 5; i++) {
		res = receive(self->rcv, self->in, 200, 0);
		EXPECT_EQ(200, res.ret);
		EXPECT_EQ(REST(1000 - 200 * i), res.inq);
	}
}

/* The packet that the receive waits for is delivered under the socket's lock. */
TEST_F(vsock_inq_sockmap, blocking_receive_waits)
{
	const struct timeval tv = { .tv_sec = 5 };
	pid_t pid;

	ASSERT_EQ(0, sockmap_add(self->map, self->rcv));
	ASSERT_EQ(0, setsockopt(self->rcv, SOL_SOCKET, SO_RCVTIMEO, &tv,
				sizeof(tv)));

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		usleep(200 * 1000);
		_exit(send(self->snd, self->out, 1000, 0) != 1000);
	}

	EXPECT_EQ(1000, recv(self->rcv, self->in, sizeof(self->in), 0));
	EXPECT_EQ(0, memcmp(self->out, self->in, 1000));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

TEST_F(vsock_inq_sockmap, end_is_seen)
{
	ASSERT_EQ(0, sockmap_add(self->map, self->rcv));
	SEND(1000);
	ASSERT_TRUE(wait_readable(self->rcv, 1000));
	ASSERT_EQ(0, shutdown(self->snd, SHUT_WR));

	EXPECT_EQ(1000, recv(self->rcv, self->in, sizeof(self->in),
			     MSG_DONTWAIT));
	ASSERT_TRUE(wait_event(self->rcv, POLLRDHUP));
	EXPECT_EQ(0, recv(self->rcv, self->in, sizeof(self->in), MSG_DONTWAIT));
}

TEST_F(vsock_inq_sockmap, zero_length_takes_nothing)
{
	ASSERT_EQ(0, sockmap_add(self->map, self->rcv));
	SEND(1000);
	ASSERT_TRUE(wait_readable(self->rcv, 1000));

	EXPECT_EQ(0, recv(self->rcv, self->in, 0, MSG_DONTWAIT));
	EXPECT_EQ(1000, recv(self->rcv, self->in, sizeof(self->in),
			     MSG_DONTWAIT));
}

TEST_F(vsock_inq_sockmap, siocinq_agrees)
{
	struct result res;

	ENABLE();
	ASSERT_EQ(0, sockmap_add(self->map, self->rcv));
	SEND(1000);
	ASSERT_TRUE(wait_readable(self->rcv, 1000));
	EXPECT_EQ(1000, queued(self->rcv));

	res = receive(self->rcv, self->in, 300, 0);
	EXPECT_EQ(300, res.ret);
	EXPECT_EQ(REST(700), res.inq);
	EXPECT_EQ(700, queued(self->rcv));

	res = receive(self->rcv, self->in, 700, 0);
	EXPECT_EQ(700, res.ret);
	EXPECT_EQ(0, res.inq);
	EXPECT_EQ(0, queued(self->rcv));
}

/*
 * What was queued before the socket entered the map stays in the transport
 * until new data comes; then the verdict takes the oldest packet.
 */
TEST_F(vsock_inq_sockmap, both_queues_count)
{
	struct result res;

	ENABLE();
	SEND(1000);
	ASSERT_TRUE(wait_queued(self->rcv, 1000));
	ASSERT_EQ(0, sockmap_add(self->map, self->rcv));

	res = receive(self->rcv, self->in, 100, MSG_PEEK);
	EXPECT_EQ(100, res.ret);
	EXPECT_EQ(REST(1000), res.inq);

	ASSERT_EQ(500, send(self->snd, self->out + 1000, 500, 0));
	usleep(50000);

	res = receive(self->rcv, self->in, 400, 0);
	EXPECT_EQ(400, res.ret);
	EXPECT_EQ(REST(1100), res.inq);

	res = receive(self->rcv, self->in + 400, 600, 0);
	EXPECT_EQ(600, res.ret);
	EXPECT_EQ(REST(500), res.inq);

	res = receive(self->rcv, self->in + 1000, 500, 0);
	EXPECT_EQ(500, res.ret);
	EXPECT_EQ(0, res.inq);
	EXPECT_EQ(0, memcmp(self->out, self->in, 1500));
}

TEST_F(vsock_inq_sockmap, peer_shut_down_data_left)
{
	struct result res;

	ENABLE();
	ASSERT_EQ(0, sockmap_add(self->map, self->rcv));
	SEND(1000);
	ASSERT_TRUE(wait_readable(self->rcv, 1000));
	ASSERT_EQ(0, shutdown(self->snd, SHUT_WR));
	ASSERT_TRUE(wait_event(self->rcv, POLLRDHUP));

	res = receive(self->rcv, self->in, 300, 0);
	EXPECT_EQ(300, res.ret);
	EXPECT_EQ(REST(700), res.inq);

	res = receive(self->rcv, self->in, 700, 0);
	EXPECT_EQ(700, res.ret);
	EXPECT_EQ(1, res.inq);

	res = receive(self->rcv, self->in, 700, 0);
	EXPECT_EQ(0, res.ret);
	EXPECT_EQ(1, res.inq);
}

/* ---------- io_uring multishot receive from a sockmap socket ---------- */

#define RING_ENTRIES	8
#define GROUP		7
#define BUF_SIZE	256
#define BUF_COUNT	64

static struct io_uring_sqe *new_sqe(struct io_uring *ring, int opcode)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	if (!sqe)
		return NULL;

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = opcode;

	return sqe;
}

/* The next completion, NULL when none comes in time. */
static struct io_uring_cqe *next_cqe(struct io_uring *ring, int timeout_ms)
{
	struct pollfd pfd = { .fd = ring->ring_fd, .events = POLLIN };
	struct io_uring_cq *cq = &ring->cq;
	long long end = now_ms() + timeout_ms;

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

static bool provide_buffers(struct io_uring *ring, void *base)
{
	struct io_uring_sqe *sqe = new_sqe(ring, IORING_OP_PROVIDE_BUFFERS);
	struct io_uring_cqe *cqe;
	bool ok;

	if (!sqe)
		return false;

	sqe->fd = BUF_COUNT;
	sqe->addr = (uintptr_t)base;
	sqe->len = BUF_SIZE;
	sqe->buf_group = GROUP;
	if (io_uring_submit(ring) != 1)
		return false;

	cqe = next_cqe(ring, DEADLINE_MS);
	if (!cqe)
		return false;
	ok = cqe->res >= 0;
	io_uring_cqe_seen(ring);

	return ok;
}

static bool arm_multishot(struct io_uring *ring, int fd)
{
	struct io_uring_sqe *sqe = new_sqe(ring, IORING_OP_RECV);

	if (!sqe)
		return false;

	sqe->fd = fd;
	sqe->ioprio = IORING_RECV_MULTISHOT;
	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;

	return io_uring_submit(ring) == 1;
}

static char buffers[BUF_COUNT][BUF_SIZE];

/* All of @total comes, in order; @flagged: each but the last says so. */
static void multishot(struct __test_metadata *_metadata, struct io_uring *ring,
		      const char *expected, int total, bool flagged)
{
	int got = 0;

	while (got < total) {
		struct io_uring_cqe *cqe = next_cqe(ring, DEADLINE_MS);
		unsigned int id;

		ASSERT_NE(NULL, cqe) TH_LOG("stall after %d of %d bytes", got,
					    total);
		ASSERT_LT(0, cqe->res);
		ASSERT_TRUE(cqe->flags & IORING_CQE_F_MORE);
		ASSERT_TRUE(cqe->flags & IORING_CQE_F_BUFFER);
		id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
		ASSERT_GT(BUF_COUNT, id);
		ASSERT_EQ(0, memcmp(buffers[id], expected + got, cqe->res));
		got += cqe->res;
		if (flagged)
			ASSERT_EQ(got < total, !!(cqe->flags &
					IORING_CQE_F_SOCK_NONEMPTY))
				TH_LOG("at %d of %d bytes", got, total);
		io_uring_cqe_seen(ring);
	}
}

TEST_F(vsock_inq_sockmap, multishot_gets_every_byte)
{
	struct io_uring ring;
	int i;

	if (io_uring_queue_init(RING_ENTRIES, &ring, 0))
		SKIP(return, "no io_uring: %s", strerror(errno));
	ASSERT_TRUE(provide_buffers(&ring, buffers));
	ASSERT_EQ(0, sockmap_add(self->map, self->rcv));
	ASSERT_TRUE(arm_multishot(&ring, self->rcv));

	/* Now and then the queue is drained in between, now and then not. */
	for (i = 0; i < 8; i++) {
		ASSERT_TRUE(sent(self->snd, self->out + 500 * i, 500));
		if (i % 4 == 3)
			ASSERT_TRUE(wait_event(ring.ring_fd, POLLIN));
	}
	multishot(_metadata, &ring, self->out, 4000, false);

	io_uring_queue_exit(&ring);
}

TEST_F(vsock_inq_sockmap, multishot_flags_psock_data)
{
	struct io_uring ring;

	if (io_uring_queue_init(RING_ENTRIES, &ring, 0))
		SKIP(return, "no io_uring: %s", strerror(errno));
	ASSERT_TRUE(provide_buffers(&ring, buffers));
	ASSERT_EQ(0, sockmap_add(self->map, self->rcv));
	SEND(1000);
	ASSERT_TRUE(wait_readable(self->rcv, 1000));
	ASSERT_TRUE(arm_multishot(&ring, self->rcv));
	multishot(_metadata, &ring, self->out, 1000, true);

	/* Nothing is left: the request waits, and wakes up for more. */
	EXPECT_EQ(NULL, next_cqe(&ring, 50));
	SEND(100);
	multishot(_metadata, &ring, self->out, 100, true);

	io_uring_queue_exit(&ring);
}

TEST_F(vsock_inq_sockmap, multishot_ends_with_the_stream)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;

	if (io_uring_queue_init(RING_ENTRIES, &ring, 0))
		SKIP(return, "no io_uring: %s", strerror(errno));
	ASSERT_TRUE(provide_buffers(&ring, buffers));
	ASSERT_EQ(0, sockmap_add(self->map, self->rcv));
	ASSERT_TRUE(arm_multishot(&ring, self->rcv));
	SEND(1000);
	ASSERT_EQ(0, shutdown(self->snd, SHUT_WR));
	multishot(_metadata, &ring, self->out, 1000, false);

	cqe = next_cqe(&ring, DEADLINE_MS);
	ASSERT_NE(NULL, cqe);
	EXPECT_EQ(0, cqe->res);
	EXPECT_FALSE(cqe->flags & IORING_CQE_F_MORE);

	io_uring_queue_exit(&ring);
}

TEST_F(vsock_inq_sockmap, multishot_crosses_from_queue_to_psock)
{
	struct io_uring ring;

	if (io_uring_queue_init(RING_ENTRIES, &ring, 0))
		SKIP(return, "no io_uring: %s", strerror(errno));
	ASSERT_TRUE(provide_buffers(&ring, buffers));
	SEND(1000);
	ASSERT_TRUE(wait_queued(self->rcv, 1000));
	ASSERT_EQ(0, sockmap_add(self->map, self->rcv));
	/* A message that is not in the psock must fit into a buffer. */
	ASSERT_EQ(200, send(self->snd, self->out + 1000, 200, 0));
	usleep(50000);

	ASSERT_TRUE(arm_multishot(&ring, self->rcv));
	multishot(_metadata, &ring, self->out, 1200, true);
	SEND(100);
	multishot(_metadata, &ring, self->out, 100, true);

	io_uring_queue_exit(&ring);
}

TEST_HARNESS_MAIN
