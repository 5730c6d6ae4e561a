// SPDX-License-Identifier: GPL-2.0-only
/*
 * Price of small zero-copy sends whose notifications share an skb.
 *
 * Sends go out in batches, over TCP, by one of three ways (-w):
 *
 *   send      IORING_OP_SEND, which copies
 *   zerocopy  sendmsg(MSG_ZEROCOPY) for each; after a batch the error queue is
 *             read until it is empty
 *   send_zc   IORING_OP_SEND_ZC of a registered buffer
 *
 * to one of two places (-g):
 *
 *   dummy     a device that frees packets unseen. Nothing is copied, nobody
 *             receives; the program itself writes what the peer says
 *             (zc_peer.h). A batch is corked, all but its last send say
 *             MSG_MORE, and finds the peer's window closed. Then the window
 *             opens, all is sent and acknowledged
 *   veth      a receiver in another network namespace ("-w receive" there).
 *             The kernel copies when it delivers. As liburing's send-zerocopy:
 *             not corked, the program waits for a batch's requests and takes
 *             the notifications that are there. Both sockets have buffers of
 *             1 MiB
 *
 * Reported per send:
 *
 *   ns        time until all is complete and received. Where a nanosecond is
 *             one instruction (QEMU -icount shift=0) that is the number of
 *             instructions, of the receiver as well
 *   skbs      that TCP allocated for data (-p)
 *   runs      of the function that completes notifications of io_uring (-p)
 *   notifs    completions of zero-copy that the program took: CQEs with
 *             IORING_CQE_F_NOTIF, or messages in the error queue
 *
 * "-w stream" is a steady flow to the dummy device by a sender that is ahead of
 * its peer: 128 KiB are in the queue, 64 KiB of them sent, as much as a send
 * brings is acknowledged after it. Requests of ordinary memory begin on one
 * skb and end on the next. Reported: how many sends came between one and its
 * notification, at most, and how many pages were charged to the user's locked
 * memory, at most. The user is one without privileges.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <liburing.h>
#include <linux/errqueue.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "bench.h"
#include "zc_peer.h"

#define MAX_SIZE	65536
#define MAX_BATCH	64
#define WARM_UP		1024	/* sends before the measured ones, stream too */
#define RECEIVE		(1 << 21)
#define BUFFERS		(1 << 20)	/* over veth: their tuning does not repeat */
#define NOBODY		65534
#define QUEUED		(128 << 10)	/* bytes of a stream not acknowledged */
#define LOOK_EVERY	16	/* sends from one look at the charge to the next */

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

enum way { WAY_SEND, WAY_ZEROCOPY, WAY_SEND_ZC, WAY_STREAM, WAY_RECEIVE };
enum ground { DUMMY, VETH };

static const char * const ways[] = { "send", "zerocopy", "send_zc", "stream",
				     "receive" };
static const char * const grounds[] = { "dummy", "veth" };

static struct {
	enum way way;
	enum ground ground;
	size_t size;
	unsigned int batch;
	unsigned long count;
	bool probe;
} opt = {
	.way = WAY_SEND_ZC,
	.ground = DUMMY,
	.size = 1024,
	.batch = 8,
	.count = 4096,
};

static char payload[MAX_SIZE + 4096] __attribute__((aligned(4096)));
static int fd;
static struct io_uring ring;
static unsigned long requests;	/* completions taken of sends */
static unsigned long complete;	/* sends whose zero-copy is complete */
static unsigned long notifs;	/* completions taken that say so */

struct hits {
	unsigned long skbs;
	unsigned long runs;
};

/* Counts of the events that the caller has set up. */
static struct hits read_hits(void)
{
	return (struct hits){
		.skbs = profile_hits("bench_skbs"),
		.runs = profile_hits("bench_runs"),
	};
}

/* ------------------------------------------------------------------ */
/* Both ends                                                           */

static void address_veth(struct sockaddr_in *to)
{
	*to = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_port = htons(PORT) };
	inet_pton(AF_INET, "198.51.100.2", &to->sin_addr);
}

static void receive(void)
{
	struct sockaddr_in me;
	int s = socket(AF_INET, SOCK_STREAM, 0);
	ssize_t ret;

	address_veth(&me);
	if (s < 0)
		err(1, "socket");
	set(s, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
	set(s, SOL_SOCKET, SO_RCVBUFFORCE, BUFFERS, "SO_RCVBUFFORCE");
	if (bind(s, (struct sockaddr *)&me, sizeof(me)) || listen(s, 1))
		err(1, "bind and listen");
	for (;;) {
		fd = accept(s, NULL, NULL);
		if (fd < 0)
			err(1, "accept");
		/* Nothing is copied to the program. */
		do
			ret = recv(fd, NULL, RECEIVE, MSG_TRUNC);
		while (ret > 0);
		if (ret < 0)
			err(1, "recv");
		close(fd);
	}
}

static void open_veth(void)
{
	struct sockaddr_in to;
	int tries = 0;

	address_veth(&to);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0)
		err(1, "socket");
	set(fd, SOL_SOCKET, SO_SNDBUFFORCE, BUFFERS, "SO_SNDBUFFORCE");
	/* The receiver may be about to listen. */
	while (connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		if (tries++ == 1000)
			err(1, "connect");
		usleep(1000);
	}
}

static void open_ring(void)
{
	struct iovec iov = { .iov_base = payload, .iov_len = opt.size };
	int ret;

	ret = io_uring_queue_init(512, &ring, IORING_SETUP_COOP_TASKRUN |
				  IORING_SETUP_SINGLE_ISSUER);
	if (ret)
		errx(1, "io_uring_queue_init: %s", strerror(-ret));
	ret = io_uring_register_files(&ring, &fd, 1);
	if (!ret && opt.way != WAY_STREAM)
		ret = io_uring_register_buffers(&ring, &iov, 1);
	if (ret)
		errx(1, "registration: %s", strerror(-ret));
}

/* A batch is queued: opens the window, and closes it behind the batch. */
static void let_out(void)
{
	peer_window(WINDOW);
	peer_ack(0);
	peer_ack_all(fd, 0);
}

/* ------------------------------------------------------------------ */
/* Sends of io_uring                                                   */

static unsigned long sent_at[1 << 16];	/* number of a send by its user data */
static unsigned long sent, latest, outstanding_max;

static void take(const struct io_uring_cqe *cqe)
{
	if (cqe->flags & IORING_CQE_F_NOTIF) {
		unsigned long since = sent - sent_at[cqe->user_data];

		if (since > latest)
			latest = since;
		complete++;
		notifs++;
		return;
	}
	if (cqe->res != (int)opt.size)
		errx(1, "send: %d (%s), expected %zu", cqe->res,
		     strerror(cqe->res < 0 ? -cqe->res : 0), opt.size);
	if (!!(cqe->flags & IORING_CQE_F_MORE) != (opt.way != WAY_SEND))
		errx(1, "send: flags %x", cqe->flags);
	requests++;
}

static void queue(bool more)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
	int flags = MSG_WAITALL | (more ? MSG_MORE : 0);

	if (!sqe)
		errx(1, "the submission queue is full");
	if (opt.way == WAY_SEND) {
		io_uring_prep_send(sqe, 0, payload, opt.size, flags);
	} else {
		io_uring_prep_send_zc(sqe, 0, payload, opt.size, flags, 0);
		if (opt.way == WAY_SEND_ZC)
			sqe->ioprio |= IORING_RECVSEND_FIXED_BUF;
	}
	sqe->flags |= IOSQE_FIXED_FILE;
	sqe->user_data = sent % ARRAY_SIZE(sent_at);
	sent_at[sqe->user_data] = sent;
	sent++;
}

static void take_all(void)
{
	struct io_uring_cqe *cqe;

	while (!io_uring_peek_cqe(&ring, &cqe)) {
		take(cqe);
		io_uring_cqe_seen(&ring, cqe);
	}
}

/* Takes completions until as many have come. */
static void wait_for(const unsigned long *n, unsigned long target)
{
	struct io_uring_cqe *cqe;
	int ret;

	while (*n < target) {
		ret = io_uring_wait_cqe(&ring, &cqe);
		if (ret)
			errx(1, "io_uring_wait_cqe: %s", strerror(-ret));
		take(cqe);
		io_uring_cqe_seen(&ring, cqe);
	}
}

static void submit(unsigned int n)
{
	int ret = io_uring_submit(&ring);

	if (ret != (int)n)
		errx(1, "io_uring_submit: %d", ret);
}

static void batch_uring(void)
{
	unsigned int i;

	for (i = 1; i <= opt.batch; i++)
		queue(opt.ground == DUMMY && i < opt.batch);
	submit(opt.batch);
	wait_for(&requests, sent);
	if (opt.ground == DUMMY) {
		let_out();
		if (opt.way == WAY_SEND_ZC)
			wait_for(&complete, sent);
	}
}

/* ------------------------------------------------------------------ */
/* sendmsg(MSG_ZEROCOPY)                                               */

static bool read_errqueue(void)
{
	char buf[256] __attribute__((aligned(sizeof(long))));
	struct msghdr m = { .msg_control = buf, .msg_controllen = sizeof(buf) };
	const struct sock_extended_err *ee;
	const struct cmsghdr *cmsg;

	if (recvmsg(fd, &m, MSG_ERRQUEUE) < 0) {
		if (errno == EAGAIN)
			return false;
		err(1, "recvmsg(MSG_ERRQUEUE)");
	}
	cmsg = CMSG_FIRSTHDR(&m);
	if (!cmsg)
		errx(1, "no control message");
	ee = (const void *)CMSG_DATA(cmsg);
	if (ee->ee_origin != SO_EE_ORIGIN_ZEROCOPY)
		errx(1, "an error of origin %u", ee->ee_origin);
	complete += ee->ee_data - ee->ee_info + 1;
	notifs++;
	return true;
}

static void send_zerocopy(bool more)
{
	struct iovec iov = { .iov_base = payload, .iov_len = opt.size };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t ret;

	ret = sendmsg(fd, &m, MSG_ZEROCOPY | (more ? MSG_MORE : 0));
	if (ret != (ssize_t)opt.size) {
		if (ret < 0)
			err(1, "sendmsg");
		errx(1, "sendmsg: %zd bytes of %zu", ret, opt.size);
	}
	sent++;
	requests++;
}

static void batch_sendmsg(void)
{
	unsigned int i;

	for (i = 1; i <= opt.batch; i++)
		send_zerocopy(opt.ground == DUMMY && i < opt.batch);
	if (opt.ground == DUMMY)
		let_out();
	while (read_errqueue())
		;
}

/* ------------------------------------------------------------------ */

/*
 * Sends @count and waits until all of them are complete, the @last time also
 * until the receiver has read all and closes.
 */
static double run(unsigned long count, bool last)
{
	double t0 = now();
	char c;
	unsigned long i;

	for (i = 0; i < count; i += opt.batch) {
		if (opt.way == WAY_ZEROCOPY)
			batch_sendmsg();
		else
			batch_uring();
	}
	while (opt.way == WAY_ZEROCOPY && complete < sent) {
		struct pollfd p = { .fd = fd };

		poll(&p, 1, -1);
		while (read_errqueue())
			;
	}
	if (opt.way == WAY_SEND_ZC)
		wait_for(&complete, sent);
	if (last && opt.ground == VETH &&
	    (shutdown(fd, SHUT_WR) || recv(fd, &c, 1, 0)))
		err(1, "end of the connection");
	return now() - t0;
}

static void measure(void)
{
	struct hits before = { }, after = { };
	unsigned long notifs_before;
	double ns, idle, idle_after, up;
	FILE *f;

	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		err(1, "mlockall");
	if (opt.ground == DUMMY)
		fd = open_inet(AF_INET, true);
	else
		open_veth();
	if (opt.way == WAY_ZEROCOPY)
		set(fd, SOL_SOCKET, SO_ZEROCOPY, 1, "SO_ZEROCOPY");
	else
		open_ring();
	run(WARM_UP, false);
	usleep(10000);	/* the receiver reads what is left */

	f = fopen("/proc/uptime", "r");
	if (!f || fscanf(f, "%lf %lf", &up, &idle) != 2)
		err(1, "/proc/uptime");
	fclose(f);
	notifs_before = notifs;
	if (opt.probe)
		before = read_hits();
	ns = run(opt.count, true);
	if (opt.probe)
		after = read_hits();
	f = fopen("/proc/uptime", "r");
	if (!f || fscanf(f, "%lf %lf", &up, &idle_after) != 2)
		err(1, "/proc/uptime");
	fclose(f);

	printf("{\"way\": \"%s\", \"ground\": \"%s\", \"size\": %zu, \"batch\": %u, ",
	       ways[opt.way], grounds[opt.ground], opt.size, opt.batch);
	printf("\"scheduler\": \"%s\", ",
	       sched_getscheduler(0) == SCHED_FIFO ? "fifo" : "default");
	printf("\"sends\": %lu, \"notifs\": %.4f, ", opt.count,
	       (double)(notifs - notifs_before) / opt.count);
	if (opt.probe)
		printf("\"skbs\": %.4f, \"runs\": %.4f}\n",
		       (double)(after.skbs - before.skbs) / opt.count,
		       (double)(after.runs - before.runs) / opt.count);
	else
		printf("\"ns\": %.1f, \"idle_percent\": %.1f}\n", ns / opt.count,
		       (idle_after - idle) * 1e11 / ns);
}

/* ------------------------------------------------------------------ */
/* A steady stream                                                     */

/*
 * Pages charged to this user: one more cannot be registered if the limit is as
 * low as that.
 */
static unsigned long pages_charged(struct io_uring *probe)
{
	struct iovec iov = { .iov_base = payload, .iov_len = 4096 };
	struct rlimit rl = { .rlim_max = RLIM_INFINITY };
	unsigned long lo = 0, hi = 1 << 20;

	while (lo < hi) {
		unsigned long mid = (lo + hi) / 2;

		rl.rlim_cur = (mid + 1) * 4096;
		if (setrlimit(RLIMIT_MEMLOCK, &rl))
			err(1, "RLIMIT_MEMLOCK");
		if (io_uring_register_buffers(probe, &iov, 1)) {
			lo = mid + 1;
		} else {
			io_uring_unregister_buffers(probe);
			hi = mid;
		}
	}
	rl.rlim_cur = RLIM_INFINITY;
	if (setrlimit(RLIMIT_MEMLOCK, &rl))
		err(1, "RLIMIT_MEMLOCK");
	return lo;
}

static void stream(void)
{
	struct rlimit rl = { RLIM_INFINITY, RLIM_INFINITY };
	unsigned long idle_pages, pages, most = 0;
	struct io_uring probe;
	unsigned long i;

	fd = open_inet(AF_INET, true);
	peer_window(QUEUED / 2 >> WSCALE);
	peer_ack(0);
	if (setrlimit(RLIMIT_MEMLOCK, &rl))
		err(1, "RLIMIT_MEMLOCK");
	if (setuid(NOBODY))
		err(1, "setuid");
	open_ring();
	if (io_uring_queue_init(1, &probe, 0))
		errx(1, "no second ring");
	idle_pages = pages_charged(&probe);

	for (i = 1; i <= opt.count; i++) {
		queue(false);
		submit(1);
		wait_for(&requests, sent);
		if (sent - complete > outstanding_max)
			outstanding_max = sent - complete;
		if (i % LOOK_EVERY == 0) {
			pages = pages_charged(&probe) - idle_pages;
			if (pages > most)
				most = pages;
		}
		if (outstanding(fd) > QUEUED) {
			int n = in_flight(fd);

			peer_ack(n < (int)opt.size ? n : (int)opt.size);
		}
		take_all();
	}
	peer_ack_all(fd, WINDOW);
	wait_for(&complete, sent);
	pages = pages_charged(&probe) - idle_pages;
	if (pages)
		errx(1, "%lu pages are still charged", pages);

	printf("{\"way\": \"%s\", \"ground\": \"%s\", \"size\": %zu, \"sends\": %lu, ",
	       ways[opt.way], grounds[opt.ground], opt.size, opt.count);
	printf("\"latency\": %lu, \"outstanding\": %lu, \"pages\": %lu}\n",
	       latest, outstanding_max, most);
}

/* A ring that goes with the process would keep the connection for a while. */
static void close_all(void)
{
	if (ring.ring_fd)
		io_uring_unregister_files(&ring);
	close(fd);
}

/* ------------------------------------------------------------------ */

static void usage(FILE *to)
{
	fprintf(to,
		"usage: notif_bench [-w send|zerocopy|send_zc|stream|receive] [-g dummy|veth]\n"
		"                   [-s BYTES] [-b SENDS] [-n SENDS] [-p]\n"
		"\n"
		"Prints one line of JSON. dummy0 must have 192.0.2.1/24; 198.51.100.2 is where\n"
		"the receiver listens, which ends when it is killed.\n"
		"\n"
		"  -w WAY   how to send, or the receiver\n"
		"  -g       where the data goes\n"
		"  -s BYTES sent at once\n"
		"  -b SENDS in a batch\n"
		"  -n SENDS measured, whole batches\n"
		"  -p       count by the events that the caller has set up; no time\n");
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "w:g:s:b:n:ph")) != -1) {
		switch (c) {
		case 'w':
			opt.way = name(optarg, ways, ARRAY_SIZE(ways));
			break;
		case 'g':
			opt.ground = name(optarg, grounds, ARRAY_SIZE(grounds));
			break;
		case 's':
			opt.size = number(optarg, 1, MAX_SIZE);
			break;
		case 'b':
			opt.batch = number(optarg, 1, MAX_BATCH);
			break;
		case 'n':
			opt.count = number(optarg, 1, 1000000);
			break;
		case 'p':
			opt.probe = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 1;
		}
	}
	if (optind != argc) {
		usage(stderr);
		return 1;
	}
	opt.count = (opt.count + opt.batch - 1) / opt.batch * opt.batch;
	memset(payload, 'z', sizeof(payload));
	if (opt.way == WAY_RECEIVE)
		receive();
	alarm(60);	/* some orders of magnitude more than is needed */
	if (opt.way == WAY_STREAM)
		stream();
	else
		measure();
	close_all();
	return 0;
}
