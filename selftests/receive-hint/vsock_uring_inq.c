// SPDX-License-Identifier: GPL-2.0-only
/*
 * What io_uring learns about the receive queue of an AF_VSOCK socket.
 *
 * A completion of a receive has IORING_CQE_F_SOCK_NONEMPTY set when another
 * receive would not block: data is left, the stream has ended or an error is
 * pending.  A drained socket whose peer is connected has it clear, and a
 * multishot receive then waits instead of trying once more.
 *
 * The server receives, the client sends.
 */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <liburing.h>
#include <linux/kernel.h>
#include <linux/sockios.h>
#include <linux/types.h>
#include <sys/ioctl.h>

#include "control.h"
#include "timeout.h"
#include "vsock_uring_inq.h"

#define RING_ENTRIES		64
#define GROUP			1

/* Rounds of the close race; the variable takes precedence on the server. */
#define CLOSE_RACE_ROUNDS	10000
#define CLOSE_RACE_VARIABLE	"VSOCK_URING_CLOSE_ROUNDS"

#define check(cond) do { \
	if (!(cond)) { \
		fprintf(stderr, "%s:%d: expected: %s\n", __func__, __LINE__, \
			#cond); \
		exit(EXIT_FAILURE); \
	} \
} while (0)

#define check_eq(seen, expected) do { \
	long long __seen = (seen), __expected = (expected); \
	if (__seen != __expected) { \
		fprintf(stderr, "%s:%d: %s is %lld, expected %lld\n", \
			__func__, __LINE__, #seen, __seen, __expected); \
		exit(EXIT_FAILURE); \
	} \
} while (0)

#define NONEMPTY(flags)	(!!((flags) & IORING_CQE_F_SOCK_NONEMPTY))
#define MORE(flags)	(!!((flags) & IORING_CQE_F_MORE))

struct done {
	int res;
	unsigned int flags;
};

/* The byte at offset @pos of what a client sends. */
static unsigned char pattern(size_t pos)
{
	return pos * 13 + (pos >> 8) * 7;
}

static void send_pattern(int fd, size_t pos, size_t len)
{
	unsigned char *buf = malloc(len);
	size_t i;

	check(buf);
	for (i = 0; i < len; i++)
		buf[i] = pattern(pos + i);
	send_buf(fd, buf, len, 0, len);
	free(buf);
}

static void check_pattern(const unsigned char *buf, size_t pos, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		check_eq(buf[i], pattern(pos + i));
}

static void ring_init(struct io_uring *ring)
{
	check_eq(io_uring_queue_init(RING_ENTRIES, ring, 0), 0);
}

/* The next completion; false when none comes within @ms. */
static bool reap(struct io_uring *ring, int ms, struct done *done)
{
	struct __kernel_timespec ts = {
		.tv_sec = ms / 1000,
		.tv_nsec = (ms % 1000) * 1000000L,
	};
	struct io_uring_cqe *cqe;
	int ret;

	do {
		ret = io_uring_wait_cqe_timeout(ring, &cqe, &ts);
	} while (ret == -EINTR);
	if (ret == -ETIME)
		return false;
	check_eq(ret, 0);

	done->res = cqe->res;
	done->flags = cqe->flags;
	io_uring_cqe_seen(ring, cqe);

	return true;
}

static struct done wait_done(struct io_uring *ring)
{
	struct done done;

	if (!reap(ring, TIMEOUT * 1000, &done)) {
		fprintf(stderr, "no completion within %d s\n", TIMEOUT);
		exit(EXIT_FAILURE);
	}

	return done;
}

static struct done recv_once(struct io_uring *ring, int fd, void *buf,
			     size_t len, int flags)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	check(sqe);
	io_uring_prep_recv(sqe, fd, buf, len, flags);
	check_eq(io_uring_submit(ring), 1);

	return wait_done(ring);
}

/* Wait until @bytes have arrived, in whatever messages. */
static void wait_queued(int fd, int bytes)
{
	check(vsock_ioctl_int(fd, SIOCINQ, bytes));
}

static int server_accept(const struct test_opts *opts, int type)
{
	int fd = vsock_accept(VMADDR_CID_ANY, opts->peer_port, NULL, type);

	check(fd >= 0);
	return fd;
}

static int client_connect(const struct test_opts *opts, int type)
{
	int fd = vsock_connect(opts->peer_cid, opts->peer_port, type);

	check(fd >= 0);
	return fd;
}

/* ---------- one receive at a time ---------- */

/* A client that sends 100 bytes and waits: much of what follows needs that. */
static void send_100(const struct test_opts *opts, int type)
{
	int fd = client_connect(opts, type);

	send_pattern(fd, 0, 100);
	control_expectln("DONE");
	close(fd);
}

static void stream_100_client(const struct test_opts *opts)
{
	send_100(opts, SOCK_STREAM);
}

static void seqpacket_100_client(const struct test_opts *opts)
{
	send_100(opts, SOCK_SEQPACKET);
}

static void partial_server(const struct test_opts *opts)
{
	int fd = server_accept(opts, SOCK_STREAM);
	unsigned char buf[100];
	struct io_uring ring;
	struct done done;

	ring_init(&ring);
	wait_queued(fd, 100);

	done = recv_once(&ring, fd, buf, 40, 0);
	check_eq(done.res, 40);
	check_eq(NONEMPTY(done.flags), 1);

	done = recv_once(&ring, fd, buf + 40, 59, 0);
	check_eq(done.res, 59);
	check_eq(NONEMPTY(done.flags), 1);

	done = recv_once(&ring, fd, buf + 99, 1, 0);
	check_eq(done.res, 1);
	check_eq(NONEMPTY(done.flags), 0);
	check_pattern(buf, 0, 100);

	control_writeln("DONE");
	io_uring_queue_exit(&ring);
	close(fd);
}

/* The same through IORING_OP_RECVMSG. */
static void partial_recvmsg_server(const struct test_opts *opts)
{
	int fd = server_accept(opts, SOCK_STREAM);
	unsigned char buf[100];
	struct iovec iov = { .iov_base = buf, .iov_len = 40 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct io_uring_sqe *sqe;
	struct io_uring ring;
	struct done done;

	ring_init(&ring);
	wait_queued(fd, 100);

	sqe = io_uring_get_sqe(&ring);
	check(sqe);
	io_uring_prep_recvmsg(sqe, fd, &msg, 0);
	check_eq(io_uring_submit(&ring), 1);
	done = wait_done(&ring);
	check_eq(done.res, 40);
	check_eq(NONEMPTY(done.flags), 1);

	iov.iov_base = buf + 40;
	iov.iov_len = 60;
	sqe = io_uring_get_sqe(&ring);
	check(sqe);
	io_uring_prep_recvmsg(sqe, fd, &msg, 0);
	check_eq(io_uring_submit(&ring), 1);
	done = wait_done(&ring);
	check_eq(done.res, 60);
	check_eq(NONEMPTY(done.flags), 0);
	check_pattern(buf, 0, 100);

	control_writeln("DONE");
	io_uring_queue_exit(&ring);
	close(fd);
}

static void drained_server(const struct test_opts *opts)
{
	int fd = server_accept(opts, SOCK_STREAM);
	unsigned char buf[200];
	struct io_uring ring;
	struct done done;

	ring_init(&ring);
	wait_queued(fd, 100);

	done = recv_once(&ring, fd, buf, sizeof(buf), 0);
	check_eq(done.res, 100);
	check_eq(NONEMPTY(done.flags), 0);
	check_pattern(buf, 0, 100);

	control_writeln("DONE");
	io_uring_queue_exit(&ring);
	close(fd);
}

static void eof_client(const struct test_opts *opts)
{
	int fd = client_connect(opts, SOCK_STREAM);

	send_pattern(fd, 0, 100);
	check_eq(shutdown(fd, SHUT_WR), 0);
	control_expectln("DONE");
	close(fd);
}

static void eof_server(const struct test_opts *opts)
{
	int fd = server_accept(opts, SOCK_STREAM);
	unsigned char buf[200];
	struct io_uring ring;
	struct done done;

	ring_init(&ring);
	wait_queued(fd, 100);
	vsock_wait_remote_close(fd);

	done = recv_once(&ring, fd, buf, 40, 0);
	check_eq(done.res, 40);
	check_eq(NONEMPTY(done.flags), 1);

	/* All the data is read, the end of the stream is not. */
	done = recv_once(&ring, fd, buf + 40, sizeof(buf) - 40, 0);
	check_eq(done.res, 60);
	check_eq(NONEMPTY(done.flags), 1);
	check_pattern(buf, 0, 100);

	done = recv_once(&ring, fd, buf, sizeof(buf), 0);
	check_eq(done.res, 0);

	control_writeln("DONE");
	io_uring_queue_exit(&ring);
	close(fd);
}

static void empty_client(const struct test_opts *opts)
{
	int fd = client_connect(opts, SOCK_STREAM);

	control_expectln("SEND");
	send_pattern(fd, 0, 100);
	control_expectln("DONE");
	close(fd);
}

static void empty_server(const struct test_opts *opts)
{
	int fd = server_accept(opts, SOCK_STREAM);
	unsigned char buf[100];
	struct io_uring ring;
	struct done done;
	int i;

	ring_init(&ring);

	for (i = 0; i < 100; i++) {
		done = recv_once(&ring, fd, buf, sizeof(buf), MSG_DONTWAIT);
		check_eq(done.res, -EAGAIN);
		check_eq(NONEMPTY(done.flags), 0);
	}

	control_writeln("SEND");
	wait_queued(fd, 100);
	done = recv_once(&ring, fd, buf, 50, MSG_DONTWAIT);
	check_eq(done.res, 50);
	check_eq(NONEMPTY(done.flags), 1);

	control_writeln("DONE");
	io_uring_queue_exit(&ring);
	close(fd);
}

static void zero_length_server(const struct test_opts *opts)
{
	int fd = server_accept(opts, SOCK_STREAM);
	unsigned char buf[100];
	struct io_uring ring;
	struct done done;

	ring_init(&ring);
	wait_queued(fd, 100);

	done = recv_once(&ring, fd, buf, 0, 0);
	check_eq(done.res, 0);
	check_eq(NONEMPTY(done.flags), 1);

	recv_buf(fd, buf, 100, 0, 100);
	done = recv_once(&ring, fd, buf, 0, 0);
	check_eq(done.res, 0);
	check_eq(NONEMPTY(done.flags), 0);

	control_writeln("DONE");
	io_uring_queue_exit(&ring);
	close(fd);
}

static void peek_server_type(const struct test_opts *opts, int type)
{
	int fd = server_accept(opts, type);
	unsigned char buf[200];
	struct io_uring ring;
	struct done done;

	ring_init(&ring);
	wait_queued(fd, 100);

	done = recv_once(&ring, fd, buf, 40, MSG_PEEK);
	check_eq(done.res, 40);
	check_eq(NONEMPTY(done.flags), 1);

	/* Everything was looked at, everything is still there. */
	done = recv_once(&ring, fd, buf, sizeof(buf), MSG_PEEK);
	check_eq(done.res, 100);
	check_eq(NONEMPTY(done.flags), 1);

	done = recv_once(&ring, fd, buf, sizeof(buf), 0);
	check_eq(done.res, 100);
	check_eq(NONEMPTY(done.flags), 0);
	check_pattern(buf, 0, 100);

	control_writeln("DONE");
	io_uring_queue_exit(&ring);
	close(fd);
}

static void peek_server(const struct test_opts *opts)
{
	peek_server_type(opts, SOCK_STREAM);
}

static void seqpacket_peek_server(const struct test_opts *opts)
{
	peek_server_type(opts, SOCK_SEQPACKET);
}

/* ---------- a pending error ---------- */

#define ERROR_BYTES	1024
#define ERROR_ATTEMPTS	200

/*
 * The receiver shrinks its buffer to less than it holds, and the sender
 * sends before it can know: the connection breaks with ENOBUFS, data still
 * queued.  Over loopback, tasks of SCHED_FIFO that stay on one CPU let no
 * credit update through in between; otherwise it takes some attempts.
 */
static void hold_cpu(bool hold)
{
	struct sched_param param = { .sched_priority = hold };
	cpu_set_t cpu;

	if (hold) {
		CPU_ZERO(&cpu);
		CPU_SET(0, &cpu);
		sched_setaffinity(0, sizeof(cpu), &cpu);
	}
	sched_setscheduler(0, hold ? SCHED_FIFO : SCHED_OTHER, &param);
}

static void error_client(const struct test_opts *opts)
{
	unsigned long again;
	int fd;

	do {
		fd = client_connect(opts, SOCK_STREAM);
		send_pattern(fd, 0, ERROR_BYTES);

		hold_cpu(true);
		control_expectln("SHRUNK");
		if (send(fd, "x", 1, MSG_DONTWAIT) < 0)
			fprintf(stderr, "too late, once more: %s\n",
				strerror(errno));
		hold_cpu(false);
		control_writeln("SENT");

		again = control_readulong();
		close(fd);
	} while (again);
}

static void error_server(const struct test_opts *opts)
{
	unsigned char buf[2 * ERROR_BYTES];
	struct pollfd pfd;
	struct io_uring ring;
	struct done done;
	int attempt, fd;

	ring_init(&ring);

	for (attempt = 0;; attempt++) {
		check(attempt < ERROR_ATTEMPTS);
		fd = server_accept(opts, SOCK_STREAM);
		wait_queued(fd, ERROR_BYTES);

		hold_cpu(true);
		setsockopt_ull_check(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_SIZE,
				     ERROR_BYTES / 2, "shrink the buffer");
		control_writeln("SHRUNK");
		control_expectln("SENT");
		hold_cpu(false);

		pfd.fd = fd;
		pfd.events = 0;
		if (poll(&pfd, 1, 500) == 1 && (pfd.revents & POLLERR))
			break;

		control_writeulong(1);
		close(fd);
	}
	control_writeulong(0);

	done = recv_once(&ring, fd, buf, 24, 0);
	check_eq(done.res, 24);
	check_eq(NONEMPTY(done.flags), 1);

	/* The queue is empty now; the error is what does not block. */
	done = recv_once(&ring, fd, buf + 24, sizeof(buf) - 24, 0);
	check_eq(done.res, ERROR_BYTES - 24);
	check_eq(NONEMPTY(done.flags), 1);
	check_pattern(buf, 0, ERROR_BYTES);

	done = recv_once(&ring, fd, buf, sizeof(buf), 0);
	check_eq(done.res, -ENOBUFS);
	check_eq(NONEMPTY(done.flags), 0);

	io_uring_queue_exit(&ring);
	close(fd);
}

/* ---------- provided buffers ---------- */

struct pool {
	struct io_uring_buf_ring *br;
	unsigned char *mem;
	unsigned int size;	/* of one buffer */
	unsigned int count;
	unsigned int next;	/* id that the next completion must begin with */
};

static void pool_init(struct io_uring *ring, struct pool *pool,
		      unsigned int count, unsigned int size)
{
	unsigned int i;
	int err;

	pool->size = size;
	pool->count = count;
	pool->next = 0;
	pool->mem = calloc(count, size);
	check(pool->mem);
	pool->br = io_uring_setup_buf_ring(ring, count, GROUP, 0, &err);
	check_eq(err, 0);
	check(pool->br);

	for (i = 0; i < count; i++)
		io_uring_buf_ring_add(pool->br, pool->mem + i * size, size, i,
				      io_uring_buf_ring_mask(count), i);
	io_uring_buf_ring_advance(pool->br, count);
}

static void pool_exit(struct io_uring *ring, struct pool *pool)
{
	io_uring_free_buf_ring(ring, pool->br, pool->count, GROUP);
	free(pool->mem);
}

/*
 * Copy what a completion brought to @to, and give the buffers back.  Buffers
 * are used in the order in which they were given, so the ids are known.
 */
static void pool_take(struct pool *pool, const struct done *done, void *to)
{
	unsigned int left = done->res;

	check(done->flags & IORING_CQE_F_BUFFER);
	check_eq(done->flags >> IORING_CQE_BUFFER_SHIFT, pool->next);

	while (left) {
		unsigned char *buf = pool->mem + pool->next * pool->size;
		unsigned int part = left < pool->size ? left : pool->size;

		memcpy(to, buf, part);
		memset(buf, 0, pool->size);
		to += part;
		left -= part;

		io_uring_buf_ring_add(pool->br, buf, pool->size, pool->next,
				      io_uring_buf_ring_mask(pool->count), 0);
		io_uring_buf_ring_advance(pool->br, 1);
		pool->next = (pool->next + 1) % pool->count;
	}
}

/* @how: IORING_RECV_MULTISHOT, IORING_RECVSEND_BUNDLE, both or neither. */
static void arm(struct io_uring *ring, int fd, unsigned int how, size_t len)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	check(sqe);
	io_uring_prep_recv(sqe, fd, NULL, len, 0);
	sqe->ioprio = how;
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	check_eq(io_uring_submit(ring), 1);
}

static void multishot_client(const struct test_opts *opts)
{
	int fd = client_connect(opts, SOCK_STREAM);

	send_pattern(fd, 0, 3000);
	control_expectln("MORE");
	send_pattern(fd, 3000, 500);
	control_expectln("EOF");
	close(fd);
	control_expectln("DONE");
}

static void multishot_server(const struct test_opts *opts)
{
	static const struct {
		int res;
		int nonempty;
	} queued[] = { { 1024, 1 }, { 1024, 1 }, { 952, 0 } };
	int fd = server_accept(opts, SOCK_STREAM);
	unsigned char buf[4096];
	struct io_uring ring;
	struct pool pool;
	struct done done;
	size_t got = 0;
	int i;

	ring_init(&ring);
	pool_init(&ring, &pool, 8, 1024);
	wait_queued(fd, 3000);

	arm(&ring, fd, IORING_RECV_MULTISHOT, 0);
	for (i = 0; i < ARRAY_SIZE(queued); i++) {
		done = wait_done(&ring);
		check_eq(done.res, queued[i].res);
		check_eq(NONEMPTY(done.flags), queued[i].nonempty);
		check_eq(MORE(done.flags), 1);
		pool_take(&pool, &done, buf + got);
		got += done.res;
	}

	/* Drained: the request waits for the next message. */
	check(!reap(&ring, 50, &done));
	control_writeln("MORE");
	done = wait_done(&ring);
	check_eq(done.res, 500);
	check_eq(NONEMPTY(done.flags), 0);
	check_eq(MORE(done.flags), 1);
	pool_take(&pool, &done, buf + got);
	got += done.res;
	check_pattern(buf, 0, got);

	check(!reap(&ring, 50, &done));
	control_writeln("EOF");
	done = wait_done(&ring);
	check_eq(done.res, 0);
	check_eq(MORE(done.flags), 0);
	check(!reap(&ring, 50, &done));

	control_writeln("DONE");
	pool_exit(&ring, &pool);
	io_uring_queue_exit(&ring);
	close(fd);
}

/* ---------- bundles from two producers ---------- */

#define BLOCK		512
#define BLOCKS		2000

struct block {
	__u32 producer;
	__u32 seq;
	unsigned char fill[BLOCK - 8];
};

struct producer {
	pthread_t thread;
	int fd;
	__u32 id;
};

static void *produce(void *arg)
{
	struct producer *self = arg;
	struct block block;
	__u32 i;

	for (i = 0; i < BLOCKS; i++) {
		block.producer = self->id;
		block.seq = i;
		memset(block.fill, self->id * 100 + i, sizeof(block.fill));
		if (send(self->fd, &block, sizeof(block), 0) != sizeof(block))
			return "send";
		if (i % 64 == self->id)
			sched_yield();
	}

	return NULL;
}

static void bundle_client(const struct test_opts *opts)
{
	struct producer producers[2];
	int fd = client_connect(opts, SOCK_STREAM);
	void *failed;
	int i;

	for (i = 0; i < ARRAY_SIZE(producers); i++) {
		producers[i].fd = fd;
		producers[i].id = i;
		check_eq(pthread_create(&producers[i].thread, NULL, produce,
					&producers[i]), 0);
	}
	for (i = 0; i < ARRAY_SIZE(producers); i++) {
		check_eq(pthread_join(producers[i].thread, &failed), 0);
		check(!failed);
	}
	check_eq(shutdown(fd, SHUT_WR), 0);

	control_expectln("DONE");
	close(fd);
}

static void check_blocks(const unsigned char *buf, size_t len)
{
	__u32 seq[2] = {};
	struct block block;
	size_t pos, i;

	check_eq(len, 2 * BLOCKS * BLOCK);
	for (pos = 0; pos < len; pos += BLOCK) {
		memcpy(&block, buf + pos, BLOCK);
		check(block.producer < 2);
		check_eq(block.seq, seq[block.producer]++);
		for (i = 0; i < sizeof(block.fill); i++)
			check_eq(block.fill[i], (unsigned char)
				 (block.producer * 100 + block.seq));
	}
}

static void bundle_server_how(const struct test_opts *opts, unsigned int how)
{
	const size_t total = 2 * BLOCKS * BLOCK;
	int fd = server_accept(opts, SOCK_STREAM);
	unsigned char *buf = malloc(total);
	bool armed = false, eof = false;
	struct io_uring ring;
	struct pool pool;
	struct done done;
	int flagged = 0;
	size_t got = 0;

	check(buf);
	ring_init(&ring);
	pool_init(&ring, &pool, 64, 256);

	while (!eof) {
		if (!armed)
			arm(&ring, fd, how, 0);
		done = wait_done(&ring);

		/* A multishot request stops when it has used every buffer. */
		if (done.res == -ENOBUFS) {
			check_eq(MORE(done.flags), 0);
			armed = false;
			continue;
		}

		check(done.res >= 0);
		check(got + done.res <= total);
		armed = MORE(done.flags);
		eof = !done.res;
		if (eof)
			continue;
		flagged += NONEMPTY(done.flags);
		pool_take(&pool, &done, buf + got);
		got += done.res;
	}

	check_blocks(buf, got);
	/* The stream ended with data queued, once at least. */
	check(flagged > 0);

	control_writeln("DONE");
	pool_exit(&ring, &pool);
	io_uring_queue_exit(&ring);
	free(buf);
	close(fd);
}

static void bundle_server(const struct test_opts *opts)
{
	bundle_server_how(opts, IORING_RECVSEND_BUNDLE);
}

static void bundle_multishot_server(const struct test_opts *opts)
{
	bundle_server_how(opts, IORING_RECVSEND_BUNDLE | IORING_RECV_MULTISHOT);
}

/* ---------- SOCK_SEQPACKET ---------- */

static void seqpacket_two_client(const struct test_opts *opts)
{
	int fd = client_connect(opts, SOCK_SEQPACKET);

	send_pattern(fd, 0, 100);
	send_pattern(fd, 100, 300);
	control_expectln("DONE");
	close(fd);
}

static void seqpacket_whole_server(const struct test_opts *opts)
{
	int fd = server_accept(opts, SOCK_SEQPACKET);
	unsigned char buf[1000];
	struct io_uring ring;
	struct done done;

	ring_init(&ring);
	wait_queued(fd, 400);

	done = recv_once(&ring, fd, buf, sizeof(buf), 0);
	check_eq(done.res, 100);
	check_eq(NONEMPTY(done.flags), 1);
	check_pattern(buf, 0, 100);

	done = recv_once(&ring, fd, buf, sizeof(buf), 0);
	check_eq(done.res, 300);
	check_eq(NONEMPTY(done.flags), 0);
	check_pattern(buf, 100, 300);

	control_writeln("DONE");
	io_uring_queue_exit(&ring);
	close(fd);
}

/* What did not fit is gone with its message. */
static void seqpacket_half_server(const struct test_opts *opts)
{
	int fd = server_accept(opts, SOCK_SEQPACKET);
	unsigned char buf[1000];
	struct io_uring ring;
	struct done done;

	ring_init(&ring);
	wait_queued(fd, 400);

	done = recv_once(&ring, fd, buf, 50, 0);
	check_eq(done.res, 50);
	check_eq(NONEMPTY(done.flags), 1);
	check_pattern(buf, 0, 50);

	done = recv_once(&ring, fd, buf, 150, 0);
	check_eq(done.res, 150);
	check_eq(NONEMPTY(done.flags), 0);
	check_pattern(buf, 100, 150);

	done = recv_once(&ring, fd, buf, sizeof(buf), MSG_DONTWAIT);
	check_eq(done.res, -EAGAIN);

	control_writeln("DONE");
	io_uring_queue_exit(&ring);
	close(fd);
}

static void seqpacket_eof_client(const struct test_opts *opts)
{
	int fd = client_connect(opts, SOCK_SEQPACKET);

	send_pattern(fd, 0, 100);
	check_eq(shutdown(fd, SHUT_WR), 0);
	control_expectln("DONE");
	close(fd);
}

static void seqpacket_eof_server(const struct test_opts *opts)
{
	int fd = server_accept(opts, SOCK_SEQPACKET);
	unsigned char buf[200];
	struct io_uring ring;
	struct done done;

	ring_init(&ring);
	wait_queued(fd, 100);
	vsock_wait_remote_close(fd);

	done = recv_once(&ring, fd, buf, sizeof(buf), 0);
	check_eq(done.res, 100);
	check_eq(NONEMPTY(done.flags), 1);
	check_pattern(buf, 0, 100);

	done = recv_once(&ring, fd, buf, sizeof(buf), 0);
	check_eq(done.res, 0);

	control_writeln("DONE");
	io_uring_queue_exit(&ring);
	close(fd);
}

static const int messages[] = { 128, 128, 50, 128, 1, 300 };

static void seqpacket_messages_client(const struct test_opts *opts)
{
	int fd = client_connect(opts, SOCK_SEQPACKET);
	size_t pos = 0;
	int i;

	for (i = 0; i < ARRAY_SIZE(messages); i++) {
		send_pattern(fd, pos, messages[i]);
		pos += messages[i];
	}
	control_expectln("MORE");
	send_pattern(fd, pos, 10);
	control_expectln("DONE");
	close(fd);
}

/*
 * A bundle takes a hint above 1 for a length: for the buffers of the next
 * receive, and for going on after a message that filled them.  Messages then
 * run together, or one gets buffers that the request did not ask for.
 * @len is what the request asks for; 0 is one buffer.
 */
static void seqpacket_messages_server(const struct test_opts *opts,
				      unsigned int how, size_t len)
{
	int fd = server_accept(opts, SOCK_SEQPACKET);
	bool multishot = how & IORING_RECV_MULTISHOT;
	unsigned int size = how & IORING_RECVSEND_BUNDLE ? 64 : 512;
	size_t pos = 0, total = 0;
	unsigned char buf[1024];
	struct io_uring ring;
	struct pool pool;
	struct done done;
	int i;

	for (i = 0; i < ARRAY_SIZE(messages); i++)
		total += messages[i];

	ring_init(&ring);
	pool_init(&ring, &pool, 32, size);
	wait_queued(fd, total);

	if (multishot)
		arm(&ring, fd, how, len);

	for (i = 0; i < ARRAY_SIZE(messages); i++) {
		int expected = messages[i];

		if (expected > (len ? : size))
			expected = len ? : size;
		if (!multishot)
			arm(&ring, fd, how, len);
		done = wait_done(&ring);
		check_eq(done.res, expected);
		check_eq(NONEMPTY(done.flags), i + 1 < ARRAY_SIZE(messages));
		check_eq(MORE(done.flags), multishot);
		pool_take(&pool, &done, buf);
		check_pattern(buf, pos, expected);
		pos += messages[i];
	}

	if (!multishot)
		arm(&ring, fd, how, len);
	check(!reap(&ring, 50, &done));
	control_writeln("MORE");
	done = wait_done(&ring);
	check_eq(done.res, 10);
	check_eq(NONEMPTY(done.flags), 0);
	pool_take(&pool, &done, buf);
	check_pattern(buf, pos, 10);

	control_writeln("DONE");
	pool_exit(&ring, &pool);
	io_uring_queue_exit(&ring);
	close(fd);
}

static void seqpacket_multishot_server(const struct test_opts *opts)
{
	seqpacket_messages_server(opts, IORING_RECV_MULTISHOT, 0);
}

static void seqpacket_bundle_server(const struct test_opts *opts)
{
	seqpacket_messages_server(opts, IORING_RECVSEND_BUNDLE, 0);
}

static void seqpacket_bundle_len_server(const struct test_opts *opts)
{
	seqpacket_messages_server(opts, IORING_RECVSEND_BUNDLE, 128);
}

static void seqpacket_bundle_multishot_server(const struct test_opts *opts)
{
	seqpacket_messages_server(opts, IORING_RECVSEND_BUNDLE |
				  IORING_RECV_MULTISHOT, 0);
}

/* ---------- one byte and close ---------- */

static void close_race_client(const struct test_opts *opts)
{
	unsigned long rounds, i;

	control_expectln("LISTENING");
	rounds = control_readulong();

	for (i = 0; i < rounds; i++) {
		int fd = socket(AF_VSOCK, SOCK_STREAM, 0);

		check(fd >= 0);
		check_eq(vsock_connect_fd(fd, opts->peer_cid,
					  opts->peer_port), 0);
		/* Every other round the receiver is waiting already. */
		if (i % 2)
			recv_byte(fd, 1, 0);
		send_byte(fd, 1, 0);
		close(fd);
	}

	control_expectln("DONE");
}

/*
 * The end of the stream may come between a receive that saw none and the
 * arming of poll: the request must end all the same.
 */
static void close_race_server(const struct test_opts *opts)
{
	const char *variable = getenv(CLOSE_RACE_VARIABLE);
	unsigned long rounds = CLOSE_RACE_ROUNDS, i;
	struct io_uring ring;
	struct pool pool;
	int listener;

	if (variable)
		rounds = strtoul(variable, NULL, 10);
	check(rounds > 0);

	ring_init(&ring);
	pool_init(&ring, &pool, 4, 64);
	listener = vsock_stream_listen(VMADDR_CID_ANY, opts->peer_port);
	control_writeln("LISTENING");
	control_writeulong(rounds);

	for (i = 0; i < rounds; i++) {
		unsigned char byte;
		struct done done;
		int fd;

		timeout_begin(TIMEOUT);
		fd = accept(listener, NULL, NULL);
		timeout_check("accept");
		timeout_end();
		check(fd >= 0);

		arm(&ring, fd, IORING_RECV_MULTISHOT, 0);
		if (i % 2)
			send_byte(fd, 1, 0);

		if (!reap(&ring, TIMEOUT * 1000, &done)) {
			fprintf(stderr, "round %lu: no byte\n", i);
			exit(EXIT_FAILURE);
		}
		check_eq(done.res, 1);
		check_eq(MORE(done.flags), 1);
		pool_take(&pool, &done, &byte);
		check_eq(byte, 'A');

		if (!reap(&ring, TIMEOUT * 1000, &done)) {
			fprintf(stderr, "round %lu: no end of stream\n", i);
			exit(EXIT_FAILURE);
		}
		check_eq(done.res, 0);
		check_eq(MORE(done.flags), 0);
		close(fd);
	}

	control_writeln("DONE");
	close(listener);
	pool_exit(&ring, &pool);
	io_uring_queue_exit(&ring);
}

/* ---------- less than the low-water mark ---------- */

static void lowat_client(const struct test_opts *opts)
{
	int fd = client_connect(opts, SOCK_STREAM);

	send_pattern(fd, 0, 4096);
	control_expectln("SECOND");
	send_pattern(fd, 4096, 4096);
	control_expectln("THIRD");
	send_pattern(fd, 8192, 4096);
	control_expectln("DONE");
	close(fd);
}

static long long cpu_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

/*
 * The first try of a receive gives what is there; poll then keeps quiet until
 * the low-water mark is reached, whatever the hint said.
 */
static void lowat_server(const struct test_opts *opts)
{
	int fd = server_accept(opts, SOCK_STREAM);
	unsigned char buf[3 * 4096];
	int low = 8192, count = 0;
	struct io_uring ring;
	struct pool pool;
	struct done done;
	size_t got = 0;
	long long cpu;

	ring_init(&ring);
	pool_init(&ring, &pool, 16, 1024);
	setsockopt_int_check(fd, SOL_SOCKET, SO_RCVLOWAT, low, "SO_RCVLOWAT");
	wait_queued(fd, 4096);

	arm(&ring, fd, IORING_RECV_MULTISHOT, 0);
	while (got < 4096) {
		done = wait_done(&ring);
		check(done.res > 0);
		check_eq(MORE(done.flags), 1);
		pool_take(&pool, &done, buf + got);
		got += done.res;
		check_eq(NONEMPTY(done.flags), got < 4096);
		check(++count <= 4);
	}

	/* 4096 queued again, too little for poll: nothing happens. */
	control_writeln("SECOND");
	wait_queued(fd, 4096);
	cpu = cpu_ms();
	check(!reap(&ring, 300, &done));
	check(cpu_ms() - cpu < 150);
	wait_queued(fd, 4096);

	control_writeln("THIRD");
	count = 0;
	while (got < sizeof(buf)) {
		done = wait_done(&ring);
		check(done.res > 0);
		check_eq(MORE(done.flags), 1);
		pool_take(&pool, &done, buf + got);
		got += done.res;
		check_eq(NONEMPTY(done.flags), got < sizeof(buf));
		check(++count <= 8);
	}
	check_pattern(buf, 0, got);
	check(!reap(&ring, 50, &done));

	control_writeln("DONE");
	pool_exit(&ring, &pool);
	io_uring_queue_exit(&ring);
	close(fd);
}

const struct test_case vsock_uring_inq_cases[] = {
	{
		.name = "SOCK_STREAM io_uring hint, partial receive",
		.run_client = stream_100_client,
		.run_server = partial_server,
	},
	{
		.name = "SOCK_STREAM io_uring hint, partial recvmsg",
		.run_client = stream_100_client,
		.run_server = partial_recvmsg_server,
	},
	{
		.name = "SOCK_STREAM io_uring hint, drained while connected",
		.run_client = stream_100_client,
		.run_server = drained_server,
	},
	{
		.name = "SOCK_STREAM io_uring hint, end of stream",
		.run_client = eof_client,
		.run_server = eof_server,
	},
	{
		.name = "SOCK_STREAM io_uring hint, EAGAIN on an empty queue",
		.run_client = empty_client,
		.run_server = empty_server,
	},
	{
		.name = "SOCK_STREAM io_uring hint, zero length",
		.run_client = stream_100_client,
		.run_server = zero_length_server,
	},
	{
		.name = "SOCK_STREAM io_uring hint, MSG_PEEK",
		.run_client = stream_100_client,
		.run_server = peek_server,
	},
	{
		.name = "SOCK_STREAM io_uring hint, pending error",
		.run_client = error_client,
		.run_server = error_server,
	},
	{
		.name = "SOCK_STREAM io_uring hint, multishot",
		.run_client = multishot_client,
		.run_server = multishot_server,
	},
	{
		.name = "SOCK_STREAM io_uring hint, bundle of two producers",
		.run_client = bundle_client,
		.run_server = bundle_server,
	},
	{
		.name = "SOCK_STREAM io_uring hint, multishot bundle of two producers",
		.run_client = bundle_client,
		.run_server = bundle_multishot_server,
	},
	{
		.name = "SOCK_STREAM io_uring hint, less than SO_RCVLOWAT",
		.run_client = lowat_client,
		.run_server = lowat_server,
	},
	{
		.name = "SOCK_STREAM io_uring hint, one byte and close",
		.run_client = close_race_client,
		.run_server = close_race_server,
	},
	{
		.name = "SOCK_SEQPACKET io_uring hint, whole messages",
		.run_client = seqpacket_two_client,
		.run_server = seqpacket_whole_server,
	},
	{
		.name = "SOCK_SEQPACKET io_uring hint, half a message",
		.run_client = seqpacket_two_client,
		.run_server = seqpacket_half_server,
	},
	{
		.name = "SOCK_SEQPACKET io_uring hint, MSG_PEEK",
		.run_client = seqpacket_100_client,
		.run_server = seqpacket_peek_server,
	},
	{
		.name = "SOCK_SEQPACKET io_uring hint, end of stream",
		.run_client = seqpacket_eof_client,
		.run_server = seqpacket_eof_server,
	},
	{
		.name = "SOCK_SEQPACKET io_uring hint, multishot",
		.run_client = seqpacket_messages_client,
		.run_server = seqpacket_multishot_server,
	},
	{
		.name = "SOCK_SEQPACKET io_uring hint, bundle",
		.run_client = seqpacket_messages_client,
		.run_server = seqpacket_bundle_server,
	},
	{
		.name = "SOCK_SEQPACKET io_uring hint, bundle of a message's length",
		.run_client = seqpacket_messages_client,
		.run_server = seqpacket_bundle_len_server,
	},
	{
		.name = "SOCK_SEQPACKET io_uring hint, multishot bundle",
		.run_client = seqpacket_messages_client,
		.run_server = seqpacket_bundle_multishot_server,
	},
	{},
};

const size_t vsock_uring_inq_cases_len = ARRAY_SIZE(vsock_uring_inq_cases);
