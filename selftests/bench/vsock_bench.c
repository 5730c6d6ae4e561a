// SPDX-License-Identifier: GPL-2.0-only
/*
 * Price of a message received over vsock loopback.
 *
 * Two processes share one connection. The sender sends a message and waits
 * for an answer of one byte; the receiver takes the message and answers. The
 * queue is therefore empty before each message. Reported per message:
 *
 *   recv_ns   CPU time of the receiver alone: its system calls and user code,
 *             the receive, the answer, and what interrupted it
 *   trip_ns   time from one message to the next as the sender sees it: both
 *             processes, the transport's worker, the scheduler
 *   calls     entries of the receiver into __vsock_connectible_recvmsg (-p)
 *   packets   packets through virtio_transport_recv_pkt, both ways (-p)
 *
 * Where a nanosecond is one instruction (QEMU -icount shift=0) these times
 * are instruction counts.
 *
 * Modes: "uring" receives by io_uring multishot with provided buffers, "recv"
 * by blocking recv(), and "queued" times nothing but recv() calls that find
 * their message queued already (one process, no answers): recv_ns as a queue
 * of 15 messages is drained, bare_ns without the last of them.
 */

#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/io_uring.h>
#include <linux/vm_sockets.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "bench.h"

#define MAX_SIZE	4096
#define WARM_UP		300	/* messages before the measured ones */
#define BATCH		14	/* messages queued at a time but for one, "queued" */
#define NR_BUFS		32	/* provided buffers, a power of two */
#define BUF_GROUP	0
#define FIFO_PRIO	50

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

enum mode { MODE_URING, MODE_RECV, MODE_QUEUED };

static const char * const mode_names[] = { "uring", "recv", "queued" };

static struct {
	enum mode mode;
	int type;
	size_t size;
	unsigned long count;
	bool fifo;
	bool probe;
} opt = {
	.mode = MODE_URING,
	.type = SOCK_STREAM,
	.size = 4096,
	.count = 5000,
};

struct result {
	double recv_ns;
	double trip_ns;
	double bare_ns;
	unsigned long calls;
	unsigned long packets;
};

struct hits {
	unsigned long calls;
	unsigned long packets;
};

static double now(clockid_t clock)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts))
		err(1, "clock_gettime");
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

/* Hit counts of the two events that the caller has put into tracefs. */
static struct hits read_hits(void)
{
	struct hits hits = { };

	if (opt.probe) {
		hits.calls = profile_hits("bench_calls");
		hits.packets = profile_hits("bench_packets");
	}
	return hits;
}

/* The first eight bytes of a message carry its number. */
static void stamp(void *msg, unsigned long nr)
{
	memcpy(msg, &nr, sizeof(nr));
}

static void check(const void *msg, ssize_t len, unsigned long nr)
{
	unsigned long got;

	if (len != (ssize_t)opt.size)
		errx(1, "message %lu: %zd bytes, expected %zu", nr, len, opt.size);
	memcpy(&got, msg, sizeof(got));
	if (got != nr)
		errx(1, "message %lu: found number %lu", nr, got);
}

static void send_all(int fd, const void *buf, size_t len)
{
	ssize_t ret = send(fd, buf, len, 0);

	if (ret < 0)
		err(1, "send");
	if ((size_t)ret != len)
		errx(1, "send: %zd bytes of %zu", ret, len);
}

static void send_answer(int fd)
{
	send_all(fd, "", 1);
}

static void wait_answer(int fd)
{
	char c;
	ssize_t ret = recv(fd, &c, 1, 0);

	if (ret < 0)
		err(1, "recv of an answer");
	if (ret != 1)
		errx(1, "connection ended before the answer");
}

/* ------------------------------------------------------------------ */
/* io_uring by its system calls alone                                  */

static struct {
	int fd;
	unsigned int *sq_tail, sq_mask, *sq_array;
	unsigned int *cq_head, *cq_tail, cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
	struct io_uring_buf_ring *bufs;
	char *mem;
} ring;

static void *map_or_die(size_t len, int flags, int fd, off_t off)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, flags | MAP_POPULATE,
		       fd, off);

	if (p == MAP_FAILED)
		err(1, "mmap");
	return p;
}

static int ring_enter(unsigned int submit, unsigned int wait)
{
	int ret;

	do {
		ret = syscall(__NR_io_uring_enter, ring.fd, submit, wait,
			      wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
	} while (ret < 0 && errno == EINTR);
	if (ret < 0)
		err(1, "io_uring_enter");
	return ret;
}

static void buf_give(unsigned short bid)
{
	unsigned short tail = ring.bufs->tail;
	struct io_uring_buf *b = &ring.bufs->bufs[tail & (NR_BUFS - 1)];

	b->addr = (unsigned long)ring.mem + bid * MAX_SIZE;
	b->len = MAX_SIZE;
	b->bid = bid;
	__atomic_store_n(&ring.bufs->tail, tail + 1, __ATOMIC_RELEASE);
}

static void ring_init(void)
{
	struct io_uring_buf_reg reg = { .ring_entries = NR_BUFS,
					.bgid = BUF_GROUP };
	struct io_uring_params p = {
		.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
	};
	size_t sq_len, cq_len;
	char *sq, *cq;
	int i;

	ring.fd = syscall(__NR_io_uring_setup, 8, &p);
	if (ring.fd < 0)
		err(1, "io_uring_setup");

	sq_len = p.sq_off.array + p.sq_entries * sizeof(unsigned int);
	cq_len = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
	sq = map_or_die(sq_len, MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
	cq = map_or_die(cq_len, MAP_SHARED, ring.fd, IORING_OFF_CQ_RING);
	ring.sqes = map_or_die(p.sq_entries * sizeof(struct io_uring_sqe),
			       MAP_SHARED, ring.fd, IORING_OFF_SQES);
	ring.sq_tail = (unsigned int *)(sq + p.sq_off.tail);
	ring.sq_mask = *(unsigned int *)(sq + p.sq_off.ring_mask);
	ring.sq_array = (unsigned int *)(sq + p.sq_off.array);
	ring.cq_head = (unsigned int *)(cq + p.cq_off.head);
	ring.cq_tail = (unsigned int *)(cq + p.cq_off.tail);
	ring.cq_mask = *(unsigned int *)(cq + p.cq_off.ring_mask);
	ring.cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);

	ring.mem = map_or_die(NR_BUFS * MAX_SIZE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);
	ring.bufs = map_or_die(NR_BUFS * sizeof(struct io_uring_buf),
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	reg.ring_addr = (unsigned long)ring.bufs;
	if (syscall(__NR_io_uring_register, ring.fd, IORING_REGISTER_PBUF_RING,
		    &reg, 1))
		err(1, "IORING_REGISTER_PBUF_RING");
	for (i = 0; i < NR_BUFS; i++)
		buf_give(i);
}

static void ring_arm(int fd)
{
	unsigned int tail = *ring.sq_tail;
	struct io_uring_sqe *sqe = &ring.sqes[tail & ring.sq_mask];

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_RECV;
	sqe->fd = fd;
	sqe->ioprio = IORING_RECV_MULTISHOT;
	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = BUF_GROUP;
	ring.sq_array[tail & ring.sq_mask] = tail & ring.sq_mask;
	__atomic_store_n(ring.sq_tail, tail + 1, __ATOMIC_RELEASE);
	if (ring_enter(1, 0) != 1)
		errx(1, "io_uring_enter took no request");
}

static void ring_take(unsigned long nr)
{
	unsigned int head = *ring.cq_head;
	struct io_uring_cqe *cqe;
	unsigned short bid;

	while (__atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE) == head)
		ring_enter(0, 1);

	cqe = &ring.cqes[head & ring.cq_mask];
	if (cqe->res < 0)
		errx(1, "message %lu: completion %s", nr, strerror(-cqe->res));
	if (!(cqe->flags & IORING_CQE_F_MORE))
		errx(1, "message %lu: multishot receive ended", nr);
	if (!(cqe->flags & IORING_CQE_F_BUFFER))
		errx(1, "message %lu: no buffer", nr);
	bid = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
	check(ring.mem + bid * MAX_SIZE, cqe->res, nr);
	__atomic_store_n(ring.cq_head, head + 1, __ATOMIC_RELEASE);
	buf_give(bid);
}

/* ------------------------------------------------------------------ */

static int listen_any(struct sockaddr_vm *addr)
{
	socklen_t len = sizeof(*addr);
	int fd;

	*addr = (struct sockaddr_vm){
		.svm_family = AF_VSOCK,
		.svm_cid = VMADDR_CID_LOCAL,
		.svm_port = VMADDR_PORT_ANY,
	};
	fd = socket(AF_VSOCK, opt.type, 0);
	if (fd < 0)
		err(1, "socket");
	if (bind(fd, (struct sockaddr *)addr, len))
		err(1, "bind");
	if (getsockname(fd, (struct sockaddr *)addr, &len))
		err(1, "getsockname");
	if (listen(fd, 1))
		err(1, "listen");
	return fd;
}

static int connect_to(const struct sockaddr_vm *addr)
{
	int fd = socket(AF_VSOCK, opt.type, 0);

	if (fd < 0)
		err(1, "socket");
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)))
		err(1, "connect");
	return fd;
}

static int accept_one(int listener)
{
	int fd = accept(listener, NULL, NULL);

	if (fd < 0)
		err(1, "accept");
	return fd;
}

static void sender(const struct sockaddr_vm *addr, int out)
{
	int fd = connect_to(addr);
	char msg[MAX_SIZE] = { };
	unsigned long nr;
	double wall = 0;

	wait_answer(fd);	/* the receiver is ready */
	for (nr = 0; nr < WARM_UP + opt.count; nr++) {
		if (nr == WARM_UP)
			wall = now(CLOCK_MONOTONIC);
		stamp(msg, nr);
		send_all(fd, msg, opt.size);
		wait_answer(fd);
	}
	wall = now(CLOCK_MONOTONIC) - wall;
	if (write(out, &wall, sizeof(wall)) != sizeof(wall))
		err(1, "write of the time");
	close(fd);
}

static void receiver(int fd, struct result *r)
{
	struct hits first = { }, last;
	char msg[MAX_SIZE];
	unsigned long nr;
	double cpu = 0;

	if (opt.mode == MODE_URING) {
		ring_init();
		ring_arm(fd);
	}
	send_answer(fd);	/* ready */
	for (nr = 0; nr < WARM_UP + opt.count; nr++) {
		if (nr == WARM_UP) {
			first = read_hits();
			cpu = now(CLOCK_THREAD_CPUTIME_ID);
		}
		if (opt.mode == MODE_URING)
			ring_take(nr);
		else
			check(msg, recv(fd, msg, sizeof(msg), 0), nr);
		send_answer(fd);
	}
	r->recv_ns = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
	last = read_hits();
	/* The sender's one recv() for each answer is not the receiver's. */
	if (opt.probe)
		r->calls = last.calls - first.calls - opt.count;
	r->packets = last.packets - first.packets;
}

static void round_trips(struct result *r)
{
	struct sockaddr_vm addr;
	int listener, fd, out[2], status;
	pid_t pid;

	listener = listen_any(&addr);
	if (pipe(out))
		err(1, "pipe");
	pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (!pid) {
		sender(&addr, out[1]);
		exit(0);
	}
	fd = accept_one(listener);
	receiver(fd, r);
	if (read(out[0], &r->trip_ns, sizeof(r->trip_ns)) != sizeof(r->trip_ns))
		errx(1, "the sender ended early");
	if (waitpid(pid, &status, 0) != pid || status)
		errx(1, "the sender failed");
}

/*
 * Both ends in one process. Timed are recv() calls that find their message
 * queued: all of a batch, and apart from that all but the last. Those do not
 * empty the queue and free less than 64 KiB in a row, so that on a stream no
 * kernel has a reason to send a credit update: the bare receive.
 */
static void queued(struct result *r)
{
	static const struct timespec ms = { .tv_nsec = 1000000 };
	unsigned long nr = 0, timed = 0, i;
	char msg[MAX_SIZE] = { };
	int listener, from, to;
	struct sockaddr_vm addr;
	double start, bare, all;

	listener = listen_any(&addr);
	to = connect_to(&addr);
	from = accept_one(listener);
	while (timed < opt.count) {
		for (i = 0; i <= BATCH; i++) {
			stamp(msg, nr + i);
			send_all(to, msg, opt.size);
		}
		nanosleep(&ms, NULL);	/* the transport's worker delivers */
		start = now(CLOCK_THREAD_CPUTIME_ID);
		for (i = 0; i < BATCH; i++)
			check(msg, recv(from, msg, opt.size, 0), nr++);
		bare = now(CLOCK_THREAD_CPUTIME_ID) - start;
		check(msg, recv(from, msg, opt.size, 0), nr++);
		all = now(CLOCK_THREAD_CPUTIME_ID) - start;
		if (nr > WARM_UP) {
			r->bare_ns += bare * (BATCH + 1) / BATCH;
			r->recv_ns += all;
			timed += BATCH + 1;
		}
		/* An answer tells the sender of all the space that is free. */
		send_answer(from);
		wait_answer(to);
	}
	opt.count = timed;
}

static void usage(FILE *f)
{
	fputs("vsock_bench [-m uring|recv|queued] [-t stream|seqpacket]\n"
	      "            [-s bytes] [-n messages] [-f] [-p]\n"
	      "One line of JSON: CPU and round trip time per message over vsock loopback.\n"
	      "  -m MODE   how the receiver receives (uring)\n"
	      "  -t TYPE   socket type (stream)\n"
	      "  -s BYTES  message size, 8 to 4096 (4096)\n"
	      "  -n COUNT  messages measured (5000)\n"
	      "  -f        SCHED_FIFO instead of the default scheduler\n"
	      "  -p        count calls and packets: wants the kprobe events\n"
	      "            bench_calls and bench_packets in " PROFILE "\n", f);
}

static void parse(int argc, char **argv)
{
	int c;

	if (argc > 1 && !strcmp(argv[1], "--help")) {
		usage(stdout);
		exit(0);
	}
	while ((c = getopt(argc, argv, "m:t:s:n:fph")) != -1) {
		switch (c) {
		case 'm':
			opt.mode = name(optarg, mode_names, ARRAY_SIZE(mode_names));
			break;
		case 't':
			if (!strcmp(optarg, "stream"))
				opt.type = SOCK_STREAM;
			else if (!strcmp(optarg, "seqpacket"))
				opt.type = SOCK_SEQPACKET;
			else
				errx(1, "no such socket type: %s", optarg);
			break;
		case 's':
			opt.size = number(optarg, 8, MAX_SIZE);
			break;
		case 'n':
			opt.count = number(optarg, BATCH, INT_MAX);
			break;
		case 'f':
			opt.fifo = true;
			break;
		case 'p':
			opt.probe = true;
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			usage(stderr);
			exit(1);
		}
	}
	if (optind != argc) {
		usage(stderr);
		exit(1);
	}
	if (opt.probe && opt.mode == MODE_QUEUED)
		errx(1, "-p counts round trips");
}

int main(int argc, char **argv)
{
	struct sched_param prio = { .sched_priority = FIFO_PRIO };
	struct result r = { };

	parse(argc, argv);
	alarm(60);	/* some orders of magnitude more than is needed */
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		err(1, "mlockall");
	if (opt.fifo && sched_setscheduler(0, SCHED_FIFO, &prio))
		err(1, "sched_setscheduler");

	if (opt.mode == MODE_QUEUED)
		queued(&r);
	else
		round_trips(&r);

	printf("{\"mode\": \"%s\", \"type\": \"%s\", \"size\": %zu, ",
	       mode_names[opt.mode],
	       opt.type == SOCK_STREAM ? "stream" : "seqpacket", opt.size);
	printf("\"sched\": \"%s\", \"messages\": %lu, ",
	       opt.fifo ? "fifo" : "default", opt.count);
	if (opt.probe)
		printf("\"calls\": %.4f, \"packets\": %.4f}\n",
		       (double)r.calls / opt.count,
		       (double)r.packets / opt.count);
	else if (opt.mode == MODE_QUEUED)
		printf("\"recv_ns\": %.1f, \"bare_ns\": %.1f}\n",
		       r.recv_ns / opt.count, r.bare_ns / opt.count);
	else
		printf("\"recv_ns\": %.1f, \"trip_ns\": %.1f}\n",
		       r.recv_ns / opt.count, r.trip_ns / opt.count);
	return 0;
}
