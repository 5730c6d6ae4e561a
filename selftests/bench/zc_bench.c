// SPDX-License-Identifier: GPL-2.0-only
/*
 * Price of a sendmsg(), and of learning that its zero-copy is complete.
 *
 * One process sends to an address behind a dummy device. That device frees
 * each packet without looking at its data, so that nothing is copied: for UDP
 * the notification of a send is queued before the call returns. TCP also
 * needs a peer that acknowledges. There is none; after each send the program
 * itself writes the acknowledgment into a tun device, and the completion
 * follows in that write. The connection is made by TCP_REPAIR, without a
 * handshake.
 *
 * Ways to learn of the notifications (-w), after each LIMIT sends (-l):
 *
 *   none      not at all, until all is sent: the bound
 *   read      recvmsg(MSG_ERRQUEUE) once
 *   poll      poll() and then recvmsg(MSG_ERRQUEUE) once
 *   drain     recvmsg(MSG_ERRQUEUE) until it finds nothing
 *   cmsg      control message SCM_ZC_NOTIFICATION in that sendmsg()
 *   plain     sends without MSG_ZEROCOPY, see -c and -z
 *
 * A read comes before the next send: not before the peer has acknowledged.
 * Reported per send:
 *
 *   ns        time of all that is done for it, the acknowledgment included,
 *             in which TCP frees what is complete; "plain", and "none" over
 *             vsock: of sendmsg() alone.
 *             Where a nanosecond is one instruction (QEMU -icount shift=0)
 *             that is the number of instructions
 *   calls     system calls (-p), but for the acknowledgment
 *   copies    times that the kernel copied a packet's pages after all (-p)
 *
 * and the percentage of sends whose notification says "copied".
 */

#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <linux/perf_event.h>
#include <linux/udp.h>
#include <linux/vm_sockets.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "bench.h"
#include "zc_peer.h"

#ifndef SCM_ZC_NOTIFICATION
#define SCM_ZC_NOTIFICATION	86
#define ZC_NOTIFICATION_MAX	64

struct zc_info_elem {
	__u32 lo;
	__u32 hi;
	__u8 zerocopy;
	__u8 reserved[3];
};

struct zc_info {
	__u32 size;
	struct zc_info_elem arr[];
};
#endif

#define MAX_SIZE	65536
#define WARM_UP		300	/* sends before the measured ones */
#define SYS_ENTER	"/sys/kernel/tracing/events/raw_syscalls/sys_enter/id"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

enum way { WAY_NONE, WAY_READ, WAY_POLL, WAY_DRAIN, WAY_CMSG, WAY_PLAIN };
enum proto { UDP, TCP, VSOCK };

static const char * const ways[] = { "none", "read", "poll", "drain", "cmsg",
				     "plain" };
static const char * const protos[] = { "udp", "tcp", "vsock" };

/* Control messages of plain sends, a bit each */
enum { CTL_PKTINFO = 1, CTL_MARK = 2, CTL_TSTAMP = 4 };
static const char * const ctls[] = { "none", "pktinfo", "mark", "pktinfo+mark",
				     "tstamp", "pktinfo+tstamp", "mark+tstamp",
				     "pktinfo+mark+tstamp" };

static struct {
	enum proto proto;
	int family;
	enum way way;
	size_t size;
	unsigned int limit;
	unsigned long count;
	unsigned int ctl;
	bool zerocopy;
	bool probe;
} opt = {
	.proto = UDP,
	.family = AF_INET,
	.way = WAY_NONE,
	.size = 1400,
	.limit = 1,
	.count = 5000,
};

static char payload[MAX_SIZE] __attribute__((aligned(4096)));
static int fd, sink;
static uint32_t completed;	/* sends whose notification was read */
static unsigned long copied;	/* and which were copied */

/* ------------------------------------------------------------------ */
/* Time and counts                                                     */

struct hits {
	unsigned long calls;
	unsigned long peer;
	unsigned long copies;
};

static int calls_fd;	/* counts the system calls of this thread */

static void count_calls(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT,
					.size = sizeof(attr) };
	FILE *f = fopen(SYS_ENTER, "r");
	unsigned int id;

	if (!f || fscanf(f, "%u", &id) != 1)
		err(1, "%s", SYS_ENTER);
	fclose(f);
	attr.config = id;
	calls_fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	if (calls_fd < 0)
		err(1, "perf_event_open");
}

/* Counts of system calls, and of the two events that the caller has set up. */
static struct hits read_hits(void)
{
	struct hits hits = {
		.peer = profile_hits("bench_peer"),
		.copies = profile_hits("bench_copies"),
	};
	uint64_t calls;

	if (read(calls_fd, &calls, sizeof(calls)) != sizeof(calls))
		err(1, "read of a perf event");
	hits.calls = calls;
	return hits;
}

/* ------------------------------------------------------------------ */
/* The socket                                                          */

static void open_vsock(void)
{
	struct sockaddr_vm to = { .svm_family = AF_VSOCK, .svm_port = PORT,
				  .svm_cid = VMADDR_CID_LOCAL };
	int s = socket(AF_VSOCK, SOCK_STREAM, 0);

	fd = socket(AF_VSOCK, SOCK_STREAM, 0);
	if (s < 0 || fd < 0)
		err(1, "socket");
	if (bind(s, (struct sockaddr *)&to, sizeof(to)) || listen(s, 1))
		err(1, "bind and listen");
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		err(1, "connect");
	sink = accept(s, NULL, NULL);
	if (sink < 0)
		err(1, "accept");
	close(s);
}

/* ------------------------------------------------------------------ */
/* What is timed                                                       */

static struct iovec iov = { .iov_base = payload };
static struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
static char control[CMSG_SPACE(sizeof(struct zc_info) + ZC_NOTIFICATION_MAX *
			       sizeof(struct zc_info_elem))]
		__attribute__((aligned(sizeof(long))));
static struct zc_info *info;

static void send_one(const struct msghdr *m, int flags)
{
	ssize_t ret = sendmsg(fd, m, flags);

	if (ret != (ssize_t)opt.size) {
		if (ret < 0)
			err(1, "sendmsg");
		errx(1, "sendmsg: %zd bytes of %zu", ret, opt.size);
	}
}

static void complete(uint32_t lo, uint32_t hi, bool was_copied)
{
	if (lo != completed)
		errx(1, "notification of send %u, expected %u", lo, completed);
	completed = hi + 1;
	if (was_copied)
		copied += hi - lo + 1;
}

static bool read_one(void)
{
	char buf[CMSG_SPACE(sizeof(struct sock_extended_err) +
			    sizeof(struct sockaddr_in6))]
		__attribute__((aligned(sizeof(long))));
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
	complete(ee->ee_info, ee->ee_data,
		 ee->ee_code & SO_EE_CODE_ZEROCOPY_COPIED);
	return true;
}

static void read_errqueue(void)
{
	struct pollfd p = { .fd = fd };

	if (opt.way == WAY_POLL && (poll(&p, 1, -1) != 1 || p.revents != POLLERR))
		errx(1, "poll: events %x", p.revents);
	if (!read_one())
		errx(1, "no notification of send %u", completed);
	if (opt.way == WAY_DRAIN)
		while (read_one())
			;
}

static void send_and_take(void)
{
	uint32_t i;

	info->size = opt.limit;
	send_one(&msg, MSG_ZEROCOPY);
	for (i = 0; i < info->size; i++)
		complete(info->arr[i].lo, info->arr[i].hi,
			 !info->arr[i].zerocopy);
}

/* One send with what is due before or in it; @due: the limit is reached. */
static void send_next(bool due)
{
	static const struct msghdr bare = { .msg_iov = &iov, .msg_iovlen = 1 };

	switch (opt.way) {
	case WAY_NONE:
		send_one(&bare, MSG_ZEROCOPY);
		break;
	case WAY_READ:
	case WAY_POLL:
	case WAY_DRAIN:
		if (due)
			read_errqueue();
		send_one(&bare, MSG_ZEROCOPY);
		break;
	case WAY_CMSG:
		if (due)
			send_and_take();
		else
			send_one(&bare, MSG_ZEROCOPY);
		break;
	case WAY_PLAIN:
		break;
	}
}

/* What comes after a send on the far side. */
static void far_side(void)
{
	static char buf[MAX_SIZE];

	switch (opt.proto) {
	case TCP:
		peer_ack(opt.size);
		break;
	case VSOCK:
		if (recv(sink, buf, sizeof(buf), 0) != (ssize_t)opt.size)
			err(1, "recv");
		/* Let the worker finish: a send that finds it busy is cheaper. */
		usleep(10);
		break;
	default:
		break;
	}
}

static void drop_timestamps(void)
{
	char buf[512];
	struct msghdr m = { .msg_control = buf };

	do {
		m.msg_controllen = sizeof(buf);
	} while (recvmsg(fd, &m, MSG_ERRQUEUE) >= 0);
}

static double run(unsigned long count)
{
	double t0 = now();
	unsigned long i;

	for (i = 1; i <= count; i++) {
		send_next(i % opt.limit == 0);
		far_side();
	}
	return now() - t0;
}

/* Times sendmsg() alone. */
static double run_alone(unsigned long count)
{
	int flags = opt.way == WAY_PLAIN ? 0 : MSG_ZEROCOPY;
	double sum = 0, t0;
	unsigned long i;

	for (i = 0; i < count; i++) {
		t0 = now();
		send_one(&msg, flags);
		sum += now() - t0;
		far_side();
		if (opt.ctl & CTL_TSTAMP)
			drop_timestamps();
	}
	return sum;
}

/* What it costs to look at the clock as run_alone() does. */
static double run_empty(unsigned long count)
{
	double sum = 0, t0;
	unsigned long i;

	for (i = 0; i < count; i++) {
		t0 = now();
		sum += now() - t0;
	}
	return sum;
}

/* ------------------------------------------------------------------ */

static void *add_cmsg(int level, int type, size_t len)
{
	struct cmsghdr *cmsg;

	msg.msg_control = control;
	cmsg = (struct cmsghdr *)(control + msg.msg_controllen);
	cmsg->cmsg_level = level;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(len);
	msg.msg_controllen += CMSG_SPACE(len);
	return CMSG_DATA(cmsg);
}

static void add_cmsgs(void)
{
	int tstamp = SOF_TIMESTAMPING_TX_SOFTWARE, mark = 1;

	if (opt.way == WAY_CMSG)
		info = add_cmsg(SOL_SOCKET, SCM_ZC_NOTIFICATION, sizeof(*info) +
				opt.limit * sizeof(struct zc_info_elem));
	if (opt.ctl & CTL_PKTINFO) {
		if (opt.family == AF_INET6)
			add_cmsg(SOL_IPV6, IPV6_PKTINFO,
				 sizeof(struct in6_pktinfo));
		else
			add_cmsg(SOL_IP, IP_PKTINFO, sizeof(struct in_pktinfo));
	}
	if (opt.ctl & CTL_MARK)
		memcpy(add_cmsg(SOL_SOCKET, SO_MARK, sizeof(mark)), &mark,
		       sizeof(mark));
	if (opt.ctl & CTL_TSTAMP)
		memcpy(add_cmsg(SOL_SOCKET, SO_TIMESTAMPING, sizeof(tstamp)),
		       &tstamp, sizeof(tstamp));
}

static void usage(FILE *to)
{
	fprintf(to,
		"usage: zc_bench [-t udp|tcp|vsock] [-6] [-w none|read|poll|drain|cmsg|plain]\n"
		"                [-s BYTES] [-l LIMIT] [-n SENDS] [-c CONTROL] [-z] [-p]\n"
		"\n"
		"Prints one line of JSON. dummy0 must have 192.0.2.1/24 and 2001:db8::1/64.\n"
		"\n"
		"  -t, -6   protocol, UDP over IPv4 if not given\n"
		"  -w WAY   how notifications are learnt of; plain: sends without MSG_ZEROCOPY\n"
		"  -s BYTES sent at once\n"
		"  -l LIMIT sends from one reading of notifications to the next\n"
		"  -n SENDS measured\n"
		"  -c BITS  plain: control messages, 1: PKTINFO, 2: SO_MARK, 4: SO_TIMESTAMPING\n"
		"  -z       plain: the socket has SO_ZEROCOPY\n"
		"  -p       count system calls and copies by the events that the caller has set up\n");
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "t:6w:s:l:n:c:zph")) != -1) {
		switch (c) {
		case 't':
			opt.proto = name(optarg, protos, ARRAY_SIZE(protos));
			break;
		case '6':
			opt.family = AF_INET6;
			break;
		case 'w':
			opt.way = name(optarg, ways, ARRAY_SIZE(ways));
			break;
		case 's':
			opt.size = number(optarg, 1, MAX_SIZE);
			break;
		case 'l':
			opt.limit = number(optarg, 1, ZC_NOTIFICATION_MAX);
			break;
		case 'n':
			opt.count = number(optarg, 100, 1000000);
			break;
		case 'c':
			opt.ctl = number(optarg, 0, ARRAY_SIZE(ctls) - 1);
			break;
		case 'z':
			opt.zerocopy = true;
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
	if (opt.way != WAY_PLAIN && opt.ctl)
		errx(1, "-c is for plain sends");
	if (opt.proto == VSOCK && opt.way != WAY_PLAIN && opt.way != WAY_NONE)
		errx(1, "-t vsock is for -w plain and none");
	if (opt.probe && (opt.way == WAY_PLAIN || opt.proto == VSOCK))
		errx(1, "-p is not for plain sends and not for vsock");
	opt.zerocopy |= opt.way != WAY_PLAIN;
}

int main(int argc, char **argv)
{
	struct hits none, before, after = { };
	double ns;
	unsigned long i;

	parse(argc, argv);
	alarm(120);	/* some orders of magnitude more than is needed */
	memset(payload, 'z', sizeof(payload));
	iov.iov_len = opt.size;
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		err(1, "mlockall");
	if (opt.proto == VSOCK)
		open_vsock();
	else
		fd = open_inet(opt.family, opt.proto == TCP);
	if (opt.proto == UDP && opt.size > MSS)
		set(fd, IPPROTO_UDP, UDP_SEGMENT, MSS, "UDP_SEGMENT");
	if (opt.zerocopy)
		set(fd, SOL_SOCKET, SO_ZEROCOPY, 1, "SO_ZEROCOPY");
	add_cmsgs();

	/* The first sends widen the window. */
	for (i = 0; i < WARM_UP; i++) {
		static const struct msghdr bare = { .msg_iov = &iov,
						    .msg_iovlen = 1 };

		send_one(&bare, opt.way == WAY_PLAIN ? 0 : MSG_ZEROCOPY);
		if (opt.proto == TCP)
			peer_ack_all(fd, WINDOW);
		else
			far_side();
	}
	if (opt.way != WAY_PLAIN) {
		while (read_one())
			;
		/* One notification ahead: a read comes before its send. */
		send_one(&(struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 },
			 MSG_ZEROCOPY);
		far_side();
	}
	if (completed != (opt.way == WAY_PLAIN ? 0 : WARM_UP))
		errx(1, "%u of %u notifications", completed, WARM_UP);
	copied = 0;
	if (opt.way != WAY_PLAIN)
		run(2 * opt.limit);

	if (opt.probe) {
		count_calls();
		none = read_hits();
		before = read_hits();
		ns = run(opt.count);
		after = read_hits();
		after.calls -= before.calls + (before.calls - none.calls);
		after.peer -= before.peer;
		after.copies -= before.copies;
	} else if (opt.way == WAY_PLAIN || opt.proto == VSOCK) {
		ns = run_alone(opt.count) - run_empty(opt.count);
	} else {
		ns = run(opt.count);
	}

	if (opt.proto == TCP && outstanding(fd))
		errx(1, "%d bytes not acknowledged", outstanding(fd));
	if (opt.way != WAY_PLAIN) {
		while (read_one())
			;
		if (completed != WARM_UP + 1 + 2 * opt.limit + opt.count)
			errx(1, "%u notifications for %lu sends", completed,
			     WARM_UP + 1 + 2 * opt.limit + opt.count);
	}

	printf("{\"proto\": \"%s\", \"family\": %d, \"way\": \"%s\", \"limit\": %u, ",
	       protos[opt.proto], opt.proto == VSOCK ? 0 :
	       opt.family == AF_INET ? 4 : 6, ways[opt.way], opt.limit);
	printf("\"size\": %zu, \"control\": \"%s\", \"so_zerocopy\": %s, \"sends\": %lu, ",
	       opt.size, ctls[opt.ctl], opt.zerocopy ? "true" : "false",
	       opt.count);
	if (opt.probe)
		printf("\"calls\": %.4f, \"copies\": %.4f, ",
		       (double)(after.calls - after.peer) / opt.count,
		       (double)after.copies / opt.count);
	else
		printf("\"ns\": %.1f, ", ns / opt.count);
	printf("\"copied_percent\": %.2f}\n", opt.way == WAY_PLAIN ? 0 :
	       100.0 * copied / (opt.count + 2 * opt.limit + 1));
	return 0;
}
