// SPDX-License-Identifier: GPL-2.0
/*
 * Notifications of zero-copy sends of io_uring (IORING_OP_SEND_ZC and
 * IORING_OP_SENDMSG_ZC): which requests have one, when it comes, to whom, and
 * what it says, above all where several requests share an skb.
 *
 * Each test has a network namespace of its own. "tcp" and "udp" send to a
 * dummy device, which drops packets unseen: nothing on the way copies. The peer
 * of TCP is the test: it writes acknowledgments into a tun device, when it
 * wants to. "tcp_lo" and "udp_lo" send over the loopback device to a socket,
 * and what is delivered to a socket is copied; there the data is looked at.
 *
 * collect() looks at everything that holds for any request: it completes once,
 * in its own ring; it has a notification if and only if it says F_MORE; and the
 * notification comes behind it, once.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/errqueue.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <io_uring/mini_liburing.h>
#include "kselftest_harness.h"

#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY	0x4000000
#endif
#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY	60
#endif
#ifndef SO_MEMINFO
#define SO_MEMINFO	55
#endif
#ifndef SOL_UDP
#define SOL_UDP		17
#endif
#ifndef F_ADD_SEALS
#define F_ADD_SEALS	(1024 + 9)
#endif
#ifndef F_SEAL_WRITE
#define F_SEAL_WRITE	0x0008
#endif

#define DEADLINE_MS	10000
#define EXIT_MS		2000	/* a ring must be gone by then */
#define ENTRIES		128
#define CQ_ENTRIES	8192
#define MAX_REQS	8192	/* of a ring */
#define PIECES		64	/* pages of the buffer */
#define CHAIN_BYTES	(512 * 1024)	/* no chain is longer */
#define MSS		1400
#define SEQ		1000	/* first byte of the test's */
#define PEER_SEQ	2000	/* and of the peer's */
#define WINDOW		0xffff	/* of the peer, scaled */
#define PORT		8000
#define NOBODY		65534

static size_t page;

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

static void nap(void)
{
	usleep(1000);
}

static int set_int(int fd, int level, int name, int val)
{
	return setsockopt(fd, level, name, &val, sizeof(val));
}

/* ---------- a connection ---------- */

struct conn {
	int domain, type;
	bool lo;
	int snd, rcv;			/* no rcv on the way to nobody */
	unsigned char *buf;		/* PIECES pages */
	__u64 in, out;		/* bytes sent and received */

	/* The peer of TCP that the test is: one packet, without data. */
	int tun;
	unsigned char packet[60];
	size_t ip_len;
	struct tcphdr *tcp;
	__u32 sum, acked;
};

static __u32 add_words(const void *data, size_t len)
{
	const unsigned char *p = data;
	__u32 sum = 0;
	size_t i;

	for (i = 0; i < len; i += 2)
		sum += p[i] << 8 | p[i + 1];
	return sum;
}

static __u16 fold(__u32 sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons(~sum);
}

static socklen_t address(const struct conn *s, bool mine,
			 struct sockaddr_storage *addr)
{
	struct sockaddr_in6 *in6 = (void *)addr;
	struct sockaddr_in *in = (void *)addr;
	int port = mine ? PORT + 1 : PORT;

	memset(addr, 0, sizeof(*addr));
	addr->ss_family = s->domain;
	if (s->domain == AF_INET6) {
		in6->sin6_port = htons(port);
		inet_pton(AF_INET6, s->lo ? "::1" :
			  mine ? "2001:db8::1" : "2001:db8::2",
			  &in6->sin6_addr);
		return sizeof(*in6);
	}
	in->sin_port = htons(port);
	inet_pton(AF_INET, s->lo ? "127.0.0.1" :
		  mine ? "192.0.2.1" : "192.0.2.2", &in->sin_addr);
	return sizeof(*in);
}

/* Acknowledges @len bytes more. */
static bool ack(struct conn *s, size_t len)
{
	size_t total = s->ip_len + sizeof(*s->tcp);

	s->acked += len;
	s->tcp->ack_seq = htonl(s->acked);
	s->tcp->check = fold(s->sum + (s->acked >> 16) + (s->acked & 0xffff));
	return write(s->tun, s->packet, total) == (ssize_t)total;
}

/* The peer has room, or has not. */
static bool set_window(struct conn *s, __u16 window)
{
	s->sum += window - ntohs(s->tcp->window);
	s->tcp->window = htons(window);
	return ack(s, 0);
}

static int outq(const struct conn *s, unsigned long which)
{
	int n = -1;

	return ioctl(s->snd, which, &n) ? -1 : n;
}

/* Acknowledges what was sent, but for the last @but bytes of it. */
static bool ack_sent(struct conn *s, int but)
{
	int n = outq(s, SIOCOUTQ) - outq(s, SIOCOUTQNSD) - but;

	return n <= 0 || ack(s, n);
}

/* Acknowledges until nothing is left. */
static bool ack_all(struct conn *s)
{
	long long end = now_ms() + DEADLINE_MS;

	while (outq(s, SIOCOUTQ)) {
		if (now_ms() > end || !ack_sent(s, 0))
			return false;
		sched_yield();
	}
	return true;
}

static bool peer_open(struct conn *s)
{
	struct ifreq ifr = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	bool v6 = s->domain == AF_INET6;
	size_t addr_len = v6 ? 16 : 4;
	struct sockaddr_storage me, to;
	unsigned char *ip = s->packet;
	__u16 check;

	s->tun = open("/dev/net/tun", O_RDWR);
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "peer0");
	if (s->tun < 0 || ioctl(s->tun, TUNSETIFF, &ifr) ||
	    system("ip link set peer0 up"))
		return false;

	address(s, true, &me);
	address(s, false, &to);
	s->ip_len = v6 ? 40 : 20;
	s->tcp = (void *)(ip + s->ip_len);
	if (v6) {
		ip[0] = 0x60;
		ip[5] = sizeof(*s->tcp);
		ip[6] = IPPROTO_TCP;
		ip[7] = 64;
		memcpy(ip + 8, &((struct sockaddr_in6 *)&to)->sin6_addr, 16);
		memcpy(ip + 24, &((struct sockaddr_in6 *)&me)->sin6_addr, 16);
	} else {
		ip[0] = 0x45;
		ip[3] = s->ip_len + sizeof(*s->tcp);
		ip[8] = 64;
		ip[9] = IPPROTO_TCP;
		memcpy(ip + 12, &((struct sockaddr_in *)&to)->sin_addr, 4);
		memcpy(ip + 16, &((struct sockaddr_in *)&me)->sin_addr, 4);
		check = fold(add_words(ip, 20));
		memcpy(ip + 10, &check, sizeof(check));
	}
	s->tcp->source = htons(PORT);
	s->tcp->dest = htons(PORT + 1);
	s->tcp->seq = htonl(PEER_SEQ);
	s->tcp->doff = sizeof(*s->tcp) / 4;
	s->tcp->ack = 1;
	s->tcp->window = htons(WINDOW);
	s->sum = add_words(s->tcp, sizeof(*s->tcp)) +
		 add_words(ip + s->ip_len - 2 * addr_len, 2 * addr_len) +
		 IPPROTO_TCP + sizeof(*s->tcp);
	s->acked = SEQ;

	return ack(s, 0);		/* tells the window */
}

/* A connection without a handshake: the peer does not answer. */
static bool connect_to_nobody(struct conn *s)
{
	struct tcp_repair_opt opts[] = {
		{ .opt_code = 2, .opt_val = MSS },
		{ .opt_code = 3, .opt_val = 14 | 14 << 16 },
	};
	struct linger reset = { .l_onoff = 1 };
	struct sockaddr_storage me, to;
	socklen_t len = address(s, true, &me);
	bool tcp = s->type == SOCK_STREAM;

	address(s, false, &to);
	if (system("ip link add dummy0 type dummy") ||
	    system("ip address add 192.0.2.1/24 dev dummy0") ||
	    system("ip address add 2001:db8::1/64 dev dummy0 nodad") ||
	    system("ip link set dummy0 up"))
		return false;

	s->snd = socket(s->domain, s->type, 0);
	if (s->snd < 0 ||
	    set_int(s->snd, SOL_SOCKET, SO_SNDBUFFORCE, 16 << 20) ||
	    setsockopt(s->snd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)))
		return false;
	if (tcp && (set_int(s->snd, IPPROTO_TCP, TCP_REPAIR, 1) ||
		    set_int(s->snd, IPPROTO_TCP, TCP_REPAIR_QUEUE,
			    TCP_SEND_QUEUE) ||
		    set_int(s->snd, IPPROTO_TCP, TCP_QUEUE_SEQ, SEQ) ||
		    set_int(s->snd, IPPROTO_TCP, TCP_REPAIR_QUEUE,
			    TCP_RECV_QUEUE) ||
		    set_int(s->snd, IPPROTO_TCP, TCP_QUEUE_SEQ, PEER_SEQ)))
		return false;
	if (bind(s->snd, (void *)&me, len) || connect(s->snd, (void *)&to, len))
		return false;

	return !tcp || (!setsockopt(s->snd, IPPROTO_TCP, TCP_REPAIR_OPTIONS,
				    opts, sizeof(opts)) &&
			!set_int(s->snd, IPPROTO_TCP, TCP_REPAIR,
				 TCP_REPAIR_OFF_NO_WP) &&
			peer_open(s));
}

static bool connect_over_lo(struct conn *s)
{
	struct sockaddr_storage addr;
	socklen_t len = address(s, false, &addr);
	int fd = socket(s->domain, s->type, 0);

	s->snd = socket(s->domain, s->type, 0);
	if (fd < 0 || s->snd < 0 || bind(fd, (void *)&addr, len) ||
	    set_int(s->snd, SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20))
		return false;
	if (s->type == SOCK_DGRAM) {
		s->rcv = fd;
		return !connect(s->snd, (void *)&addr, len);
	}
	if (listen(fd, 1) || connect(s->snd, (void *)&addr, len))
		return false;
	s->rcv = accept(fd, NULL, NULL);
	close(fd);
	return s->rcv >= 0;
}

/* What the byte at this place of a stream is. */
static unsigned char byte_at(__u64 at)
{
	return at ^ at >> 8 ^ at >> 16;
}

static void fill(unsigned char *to, __u64 at, size_t len)
{
	while (len--)
		*to++ = byte_at(at++);
}

/* Receives what there is; false: a byte is wrong. */
static bool receive(struct conn *s)
{
	static unsigned char data[1 << 16];
	ssize_t n, i;

	while ((n = recv(s->rcv, data, sizeof(data), MSG_DONTWAIT)) > 0)
		for (i = 0; i < n; i++)
			if (data[i] != byte_at(s->out++))
				return false;
	return true;
}

static bool receive_to(struct conn *s, __u64 end)
{
	long long give_up = now_ms() + DEADLINE_MS;

	while (s->out < end) {
		if (!receive(s) || now_ms() > give_up)
			return false;
		sched_yield();
	}
	return true;
}

/* Nobody waits for the data any more: what is sent completes, if it can. */
static bool settle(struct conn *s)
{
	if (s->lo)
		return receive_to(s, s->in);
	return s->type == SOCK_DGRAM || ack_all(s);
}

static bool tcp_uncork(struct conn *s)
{
	/* As TCP_NODELAY does, whatever it was before. */
	return !set_int(s->snd, IPPROTO_TCP, TCP_NODELAY, 1);
}

/* ---------- a ring ---------- */

struct req {
	int res;
	bool done, more, notified, copied;
};

struct ring {
	struct io_uring u;
	__u64 tag;			/* of user_data: this ring's */
	unsigned int sent, done, mores, notifs, copied;
	struct req *req;
	char wrong[64];			/* what must not be, if anything is */
};

enum kind { PLAIN, DEFER };

static bool ring_open(struct ring *r, enum kind kind)
{
	struct io_uring_params p = {
		.flags = IORING_SETUP_CQSIZE,
		.cq_entries = CQ_ENTRIES,
	};
	static __u64 tags;

	if (kind == DEFER)
		p.flags |= IORING_SETUP_DEFER_TASKRUN |
			   IORING_SETUP_SINGLE_ISSUER;
	memset(r, 0, sizeof(*r));
	r->tag = __atomic_add_fetch(&tags, 1, __ATOMIC_RELAXED) << 32;
	r->req = calloc(MAX_REQS, sizeof(*r->req));
	return r->req && !io_uring_queue_init_params(ENTRIES, &r->u, &p);
}

static void ring_close(struct ring *r)
{
	io_uring_queue_exit(&r->u);
	free(r->req);
}

static struct io_uring_sqe *get_sqe(struct ring *r, int opcode, int fd)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->u);

	if (!sqe || r->sent == MAX_REQS) {
		fprintf(stderr, "no room in the ring\n");
		exit(1);
	}
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = opcode;
	sqe->fd = fd;
	sqe->user_data = r->tag | r->sent++;
	return sqe;
}

static struct io_uring_sqe *prep(struct ring *r, struct conn *s,
				 const void *buf, size_t len, int flags)
{
	struct io_uring_sqe *sqe = get_sqe(r, IORING_OP_SEND_ZC, s->snd);

	sqe->addr = (unsigned long)buf;
	sqe->len = len;
	sqe->msg_flags = flags;
	return sqe;
}

static struct io_uring_sqe *prep_msg(struct ring *r, struct conn *s,
				     const struct msghdr *msg, int flags)
{
	struct io_uring_sqe *sqe = get_sqe(r, IORING_OP_SENDMSG_ZC, s->snd);

	sqe->addr = (unsigned long)msg;
	sqe->len = 1;
	sqe->msg_flags = flags;
	return sqe;
}

static void take(struct ring *r, const struct io_uring_cqe *cqe)
{
	unsigned int i = cqe->user_data;
	struct req *req = &r->req[i];
	const char *wrong = NULL;

	if ((cqe->user_data & ~0xffffffffULL) != r->tag || i >= r->sent) {
		wrong = "completion of another ring";
	} else if (cqe->flags & IORING_CQE_F_NOTIF) {
		if (!req->done)
			wrong = "notification before its request";
		else if (!req->more)
			wrong = "notification without F_MORE";
		else if (req->notified)
			wrong = "second notification";
		else if (cqe->flags & IORING_CQE_F_MORE)
			wrong = "notification with F_MORE";
		req->notified = true;
		req->copied = cqe->res & IORING_NOTIF_USAGE_ZC_COPIED;
		r->notifs++;
		r->copied += req->copied;
	} else {
		if (req->done)
			wrong = "second completion";
		req->done = true;
		req->res = cqe->res;
		req->more = cqe->flags & IORING_CQE_F_MORE;
		r->done++;
		r->mores += req->more;
	}
	if (wrong && !*r->wrong)
		snprintf(r->wrong, sizeof(r->wrong), "%s, request %u", wrong, i);
}

/* Takes what is in the ring. */
static void reap(struct ring *r)
{
	struct io_uring_cq *cq = &r->u.cq;

	while (__atomic_load_n(cq->ktail, __ATOMIC_ACQUIRE) != *cq->khead) {
		take(r, &cq->cqes[*cq->khead & *cq->kring_mask]);
		io_uring_cqe_seen(&r->u);
	}
}

/* Lets the ring do what it has to do, and takes what that gives. */
static void collect(struct ring *r)
{
	io_uring_enter(r->u.ring_fd, 0, 0, IORING_ENTER_GETEVENTS, NULL);
	reap(r);
}

static bool submit(struct ring *r)
{
	int n = r->u.sq.sqe_tail - r->u.sq.sqe_head;
	bool all = io_uring_submit(&r->u) == n;

	collect(r);
	return all;
}

/* Waits for so many requests and notifications in all. */
static bool wait_for(struct ring *r, unsigned int done, unsigned int notifs)
{
	long long end = now_ms() + DEADLINE_MS;

	for (;;) {
		collect(r);
		if (r->done >= done && r->notifs >= notifs)
			return true;
		if (now_ms() > end)
			return false;
		usleep(100);
	}
}

/* All that was sent is over; "" if everything was as it must be. */
static const char *finish(struct ring *r)
{
	static __thread char text[128];

	if (!wait_for(r, r->sent, 0))
		sprintf(text, "%u of %u requests", r->done, r->sent);
	else if (!wait_for(r, r->sent, r->mores))
		sprintf(text, "%u of %u notifications", r->notifs, r->mores);
	else
		sprintf(text, "%s", r->wrong);
	/* Nothing more comes. */
	nap();
	collect(r);
	if (!*text && r->notifs != r->mores)
		sprintf(text, "more notifications than F_MORE");
	return text;
}

/* One send of @len bytes of the @i-th page; its result. */
static int send_page(struct ring *r, struct conn *s, unsigned int i, size_t len,
		     int flags, int zc_flags)
{
	unsigned int id = r->sent;
	unsigned char *from = s->buf + i % PIECES * page;

	fill(from, s->in, len);
	prep(r, s, from, len, flags)->ioprio = zc_flags;
	if (!submit(r) || !wait_for(r, id + 1, 0))
		return -ETIME;
	if (r->req[id].res > 0)
		s->in += r->req[id].res;
	return r->req[id].res;
}

/* ---------- fixtures ---------- */

static const char *conn_setup(struct conn *s, int domain, int type, bool lo)
{
	page = sysconf(_SC_PAGESIZE);
	memset(s, 0, sizeof(*s));
	s->domain = domain;
	s->type = type;
	s->lo = lo;
	s->snd = -1;
	s->rcv = -1;
	s->tun = -1;
	if (geteuid() || unshare(CLONE_NEWNET))
		return "no network namespace for us";
	if (!lo && type == SOCK_STREAM && access("/dev/net/tun", R_OK | W_OK))
		return "no tun device";
	s->buf = mmap(NULL, PIECES * page, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (s->buf == MAP_FAILED || system("ip link set lo up"))
		return NULL;
	return (lo ? connect_over_lo(s) : connect_to_nobody(s)) ? "" : NULL;
}

static void conn_fixture_setup(struct __test_metadata *_metadata,
			       struct conn *s, int domain, int type, bool lo)
{
	const char *why = conn_setup(s, domain, type, lo);

	ASSERT_NE(NULL, why);
	if (*why)
		SKIP(return, "%s", why);
}

static void conn_close(struct conn *s)
{
	close(s->snd);
	close(s->rcv);
	close(s->tun);
}

FIXTURE(tcp)
{
	struct conn s;
};

FIXTURE_VARIANT(tcp)
{
	int domain;
};

FIXTURE_VARIANT_ADD(tcp, v4)
{
	.domain = AF_INET,
};

FIXTURE_VARIANT_ADD(tcp, v6)
{
	.domain = AF_INET6,
};

FIXTURE_SETUP(tcp)
{
	conn_fixture_setup(_metadata, &self->s, variant->domain, SOCK_STREAM,
			   false);
}

FIXTURE_TEARDOWN(tcp)
{
	conn_close(&self->s);
}

FIXTURE(udp)
{
	struct conn s;
};

FIXTURE_VARIANT(udp)
{
	int domain;
};

FIXTURE_VARIANT_ADD(udp, v4)
{
	.domain = AF_INET,
};

FIXTURE_VARIANT_ADD(udp, v6)
{
	.domain = AF_INET6,
};

FIXTURE_SETUP(udp)
{
	conn_fixture_setup(_metadata, &self->s, variant->domain, SOCK_DGRAM,
			   false);
}

FIXTURE_TEARDOWN(udp)
{
	conn_close(&self->s);
}

FIXTURE(tcp_lo)
{
	struct conn s;
};

FIXTURE_VARIANT(tcp_lo)
{
	int domain;
};

FIXTURE_VARIANT_ADD(tcp_lo, v4)
{
	.domain = AF_INET,
};

FIXTURE_VARIANT_ADD(tcp_lo, v6)
{
	.domain = AF_INET6,
};

FIXTURE_SETUP(tcp_lo)
{
	conn_fixture_setup(_metadata, &self->s, variant->domain, SOCK_STREAM,
			   true);
}

FIXTURE_TEARDOWN(tcp_lo)
{
	conn_close(&self->s);
}

FIXTURE(udp_lo)
{
	struct conn s;
};

FIXTURE_VARIANT(udp_lo)
{
	int domain;
};

FIXTURE_VARIANT_ADD(udp_lo, v4)
{
	.domain = AF_INET,
};

FIXTURE_VARIANT_ADD(udp_lo, v6)
{
	.domain = AF_INET6,
};

FIXTURE_SETUP(udp_lo)
{
	conn_fixture_setup(_metadata, &self->s, variant->domain, SOCK_DGRAM,
			   true);
}

FIXTURE_TEARDOWN(udp_lo)
{
	conn_close(&self->s);
}

#define BODY(name) \
	static void name(struct __test_metadata *const _metadata, struct conn *s)

/* Seconds */
#define TIMEOUT	60

/* ---------- how many skbs ---------- */

/*
 * The memory of the send queue, sent or not, is that of its skbs and of their
 * fragments. A send of one piece on an empty queue makes an skb with a
 * fragment, a send of two pieces one with two: that tells both sizes. Then the
 * peer closes its window: what comes stays in the queue as it is.
 */
static int queued_memory(struct conn *s)
{
	__u32 info[SK_MEMINFO_VARS];
	socklen_t len = sizeof(info);

	if (getsockopt(s->snd, SOL_SOCKET, SO_MEMINFO, info, &len))
		return -1;
	return info[SK_MEMINFO_WMEM_QUEUED];
}

struct sizes { int skb, frag; };

static bool measure(struct ring *r, struct conn *s, struct sizes *z)
{
	const size_t len = 100;		/* two fit into a packet: no split */
	struct iovec iov[2] = {
		{ s->buf, len },
		{ s->buf + 2 * page, len },
	};
	struct msghdr msg = { .msg_iov = iov };
	int n[2], i;

	for (i = 0; i < 2; i++) {
		unsigned int id = r->sent;

		msg.msg_iovlen = i + 1;
		prep_msg(r, s, &msg, MSG_MORE);
		if (queued_memory(s) || !submit(r) ||
		    r->req[id].res != (int)(len * (i + 1)))
			return false;
		n[i] = queued_memory(s);
		tcp_uncork(s);
		if (!ack_all(s))
			return false;
		set_int(s->snd, IPPROTO_TCP, TCP_NODELAY, 0);
	}
	z->frag = n[1] - n[0];
	z->skb = n[0] - z->frag;
	return z->skb > 0 && z->frag > 0 && set_window(s, 0);
}

/* Those that came since, with @sends fragments. */
static int skbs(struct conn *s, const struct sizes *z, int sends)
{
	int left = queued_memory(s) - sends * z->frag;

	return left % z->skb ? -1 : left / z->skb;
}

BODY(corked_sends_share_skbs)
{
	struct iovec all = { s->buf, PIECES * page };
	struct sizes z;
	struct ring r;
	int fixed, i, n;

	for (fixed = 0; fixed < 2; fixed++) {
		ASSERT_TRUE(ring_open(&r, DEFER));
		ASSERT_EQ(0, io_uring_register_buffers(&r.u, &all, 1));
		ASSERT_TRUE(measure(&r, s, &z));
		for (i = 0; i < 64; i++) {
			ASSERT_EQ(1024, send_page(&r, s, i, 1024, MSG_MORE,
						  fixed ? IORING_RECVSEND_FIXED_BUF : 0));
		}
		n = skbs(s, &z, 64);
		EXPECT_GE(6, n);
		EXPECT_LE(4, n);	/* an skb has at most 17 fragments */
		EXPECT_EQ(2, r.notifs);
		tcp_uncork(s);
		EXPECT_TRUE(set_window(s, WINDOW) && ack_all(s));
		EXPECT_STREQ("", finish(&r));
		set_int(s->snd, IPPROTO_TCP, TCP_NODELAY, 0);
		ring_close(&r);
	}
}

TEST_F_TIMEOUT(tcp, corked_sends_share_skbs, TIMEOUT)
{
	corked_sends_share_skbs(_metadata, &self->s);
}

/* ---------- several rings ---------- */

/* Notifications of two rings on one skb would complete in one of them. */
BODY(two_rings_share_no_skb)
{
	struct ring r[2];
	struct sizes z;
	int i;

	ASSERT_TRUE(ring_open(&r[0], DEFER));
	ASSERT_TRUE(ring_open(&r[1], PLAIN));
	ASSERT_TRUE(measure(&r[0], s, &z));
	for (i = 0; i < 32; i++)
		ASSERT_EQ(100, send_page(&r[i & 1], s, i, 100, MSG_MORE, 0));
	EXPECT_EQ(32, skbs(s, &z, 32));
	tcp_uncork(s);
	ASSERT_TRUE(set_window(s, WINDOW) && ack_all(s));
	for (i = 0; i < 2; i++) {
		EXPECT_STREQ("", finish(&r[i]));
		EXPECT_EQ(i ? 16 : 18, r[i].notifs);
		ring_close(&r[i]);
	}
}

TEST_F_TIMEOUT(tcp, two_rings_share_no_skb, TIMEOUT)
{
	two_rings_share_no_skb(_metadata, &self->s);
}

/* One ring, but two tasks: the notifications belong to the task. */
static void *send_in_thread(void *arg)
{
	void **args = arg;
	struct conn *s = args[1];
	struct ring *r = args[0];

	prep(r, s, s->buf, 100, MSG_MORE);
	return io_uring_submit(&r->u) == 1 ? arg : NULL;
}

BODY(two_threads_share_no_skb)
{
	struct ring r;
	void *args[2] = { &r, s }, *ret;
	pthread_t thread;
	struct sizes z;
	int i;

	ASSERT_TRUE(ring_open(&r, PLAIN));
	ASSERT_TRUE(measure(&r, s, &z));
	for (i = 0; i < 8; i++) {
		ASSERT_EQ(100, send_page(&r, s, 1, 100, MSG_MORE, 0));
		ASSERT_EQ(0, pthread_create(&thread, NULL, send_in_thread, args));
		ASSERT_EQ(0, pthread_join(thread, &ret));
		ASSERT_EQ((void *)args, ret);
	}
	EXPECT_EQ(16, skbs(s, &z, 16));
	tcp_uncork(s);
	ASSERT_TRUE(set_window(s, WINDOW) && ack_all(s));
	EXPECT_STREQ("", finish(&r));
	EXPECT_EQ(18, r.notifs);
	ring_close(&r);
}

TEST_F_TIMEOUT(tcp, two_threads_share_no_skb, TIMEOUT)
{
	two_threads_share_no_skb(_metadata, &self->s);
}

/* Both at once, each with a ring, small sends of one socket. */
struct sender {
	pthread_t thread;
	struct conn s;
	int kind, sends;
	__u64 in;
	bool good;
	atomic_bool *stop;
};

static void *sender_thread(void *arg)
{
	struct sender *t = arg;
	struct ring r;
	unsigned int i, id;

	if (!ring_open(&r, t->kind))
		return NULL;
	for (i = 0; i < (unsigned int)t->sends; i++) {
		id = r.sent;
		prep(&r, &t->s, t->s.buf + i % PIECES * page, 100 + i % 1000,
		     i % 7 && i + 1 < (unsigned int)t->sends ? MSG_MORE : 0);
		if (!submit(&r) || !wait_for(&r, id + 1, 0) ||
		    r.req[id].res < 0)
			goto out;
		t->in += r.req[id].res;
	}
	t->good = !*finish(&r) && r.notifs == i;
out:
	if (!t->good)
		fprintf(stderr, "# kind %d: %u sent, %u done, %u of %u notifications, %s\n",
			t->kind, r.sent, r.done, r.notifs, r.mores, r.wrong);
	ring_close(&r);
	return NULL;
}

static void *receiver_thread(void *arg)
{
	static unsigned char data[1 << 16];
	struct sender *t = arg;
	ssize_t n;

	while (!*t->stop) {
		n = recv(t->s.rcv, data, sizeof(data), MSG_DONTWAIT);
		if (n > 0)
			t->in += n;
		else
			usleep(100);
	}
	return NULL;
}

BODY(two_threads_at_once)
{
	atomic_bool stop = false;
	struct sender t[3];
	long long end;
	int i;

	memset(t, 0, sizeof(t));
	for (i = 0; i < 3; i++) {
		t[i].s = *s;
		t[i].stop = &stop;
		t[i].kind = i ? DEFER : PLAIN;
		t[i].sends = 3000;
		ASSERT_EQ(0, pthread_create(&t[i].thread, NULL,
					    i < 2 ? sender_thread :
					    receiver_thread, &t[i]));
	}
	for (i = 0; i < 2; i++)
		pthread_join(t[i].thread, NULL);
	for (end = now_ms() + DEADLINE_MS; now_ms() < end; nap())
		if (s->type == SOCK_DGRAM || t[2].in == t[0].in + t[1].in)
			break;
	stop = true;
	pthread_join(t[2].thread, NULL);
	EXPECT_TRUE(t[0].good);
	EXPECT_TRUE(t[1].good);
	if (s->type == SOCK_STREAM)
		EXPECT_EQ(t[0].in + t[1].in, t[2].in);
}

TEST_F_TIMEOUT(tcp_lo, two_threads_at_once, TIMEOUT)
{
	two_threads_at_once(_metadata, &self->s);
}

/* ---------- what the notifications say ---------- */

static void usage(struct __test_metadata *const _metadata, struct conn *s)
{
	bool tcp = s->type == SOCK_STREAM;
	unsigned int sends = tcp ? 40 : 20, i;
	struct ring r;

	/* Linked ones, if it is TCP, and one alone. */
	ASSERT_TRUE(ring_open(&r, DEFER));
	for (i = 0; i < sends; i++) {
		ASSERT_EQ(600, send_page(&r, s, i, 600,
					 tcp && i < sends - 2 ? MSG_MORE : 0,
					 IORING_SEND_ZC_REPORT_USAGE));
	}
	ASSERT_TRUE(settle(s));
	EXPECT_STREQ("", finish(&r));
	EXPECT_EQ(sends, r.notifs);
	EXPECT_EQ(s->lo ? sends : 0, r.copied);
	ring_close(&r);
}

BODY(usage_not_copied) { usage(_metadata, s); }
BODY(usage_copied) { usage(_metadata, s); }

TEST_F_TIMEOUT(tcp, usage_not_copied, TIMEOUT)
{
	usage_not_copied(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp, usage_not_copied, TIMEOUT)
{
	usage_not_copied(_metadata, &self->s);
}

TEST_F_TIMEOUT(tcp_lo, usage_copied, TIMEOUT)
{
	usage_copied(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp_lo, usage_copied, TIMEOUT)
{
	usage_copied(_metadata, &self->s);
}

/* Who did not ask is told nothing, though it is linked to one who did. */
BODY(usage_not_asked_for)
{
	struct ring r;
	int i;

	ASSERT_TRUE(ring_open(&r, PLAIN));
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(600, send_page(&r, s, i, 600, MSG_MORE, i & 1 ?
					 0 : IORING_SEND_ZC_REPORT_USAGE));
	}
	tcp_uncork(s);
	ASSERT_TRUE(settle(s));
	EXPECT_STREQ("", finish(&r));
	for (i = 0; i < 10; i++)
		EXPECT_EQ(!(i & 1), r.req[i].copied);
	ring_close(&r);
}

TEST_F_TIMEOUT(tcp_lo, usage_not_asked_for, TIMEOUT)
{
	usage_not_asked_for(_metadata, &self->s);
}

/*
 * Three requests, two skbs: the first request on one skb, the third on the
 * other, the second on both. While a packet socket looks at the device the
 * kernel copies what is sent: first the one skb, then the other.
 */
BODY(usage_of_one_skb_copied)
{
	const size_t len = 600, frags = 17;
	struct sockaddr_ll all = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_ALL),
	};
	int first, looks, i;

	for (first = 1; first >= 0; first--) {
		struct iovec iov[frags];
		struct msghdr msg = { .msg_iov = iov, .msg_iovlen = frags };
		struct ring r;

		set_int(s->snd, IPPROTO_TCP, TCP_NODELAY, 0);
		all.sll_ifindex = if_nametoindex("dummy0");
		ASSERT_TRUE(ring_open(&r, DEFER));
		looks = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
		ASSERT_LE(0, looks);
		ASSERT_EQ(0, bind(looks, (void *)&all, sizeof(all)));
		if (!first)
			close(looks);

		ASSERT_EQ(len, send_page(&r, s, 0, len, MSG_MORE,
					 IORING_SEND_ZC_REPORT_USAGE));
		for (i = 0; i < (int)frags; i++)
			iov[i] = (struct iovec){ s->buf + 2 * i * page, len };
		prep_msg(&r, s, &msg, MSG_MORE)->ioprio =
			IORING_SEND_ZC_REPORT_USAGE;
		ASSERT_TRUE(submit(&r));
		ASSERT_EQ(len * frags, r.req[1].res);
		/* The first skb is sent, the second waits for more. */
		ASSERT_EQ(len, outq(s, SIOCOUTQNSD));
		if (first)
			close(looks);
		else
			looks = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
		ASSERT_EQ(len, send_page(&r, s, 40, len, 0,
					 IORING_SEND_ZC_REPORT_USAGE));
		tcp_uncork(s);
		ASSERT_TRUE(ack_all(s));
		if (!first)
			close(looks);
		EXPECT_STREQ("", finish(&r));
		EXPECT_EQ(first, r.req[0].copied);
		EXPECT_TRUE(r.req[1].copied);
		EXPECT_EQ(!first, r.req[2].copied);
		ring_close(&r);
	}
}

TEST_F_TIMEOUT(tcp, usage_of_one_skb_copied, TIMEOUT)
{
	usage_of_one_skb_copied(_metadata, &self->s);
}

/* ---------- the end of a ring ---------- */

/* Memory whose pages can be asked whether somebody still holds them. */
static int memory_file(size_t len)
{
	int fd = syscall(__NR_memfd_create, "zc", 2U /* MFD_ALLOW_SEALING */);

	return fd >= 0 && !ftruncate(fd, len) ? fd : -1;
}

/* The kernel refuses this as long as a page is in use. */
static bool unused(int fd)
{
	return !fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE);
}

static bool gone(pid_t pid, long long ms, int *status)
{
	long long end = now_ms() + ms;

	while (waitpid(pid, status, WNOHANG) != pid) {
		if (now_ms() > end)
			return false;
		nap();
	}
	return true;
}

enum end { CLOSE_RING, EXIT };

/* The child sends, nobody acknowledges or reads; then its ring ends. */
static int child_sends(struct conn *s, int mem, enum kind kind, enum end end)
{
	struct iovec all = { NULL, 16 * page };
	struct ring r;
	long long was;
	int i;

	all.iov_base = mmap(NULL, 16 * page, PROT_READ | PROT_WRITE,
			    MAP_SHARED, mem, 0);
	if (all.iov_base == MAP_FAILED || !ring_open(&r, kind) ||
	    io_uring_register_buffers(&r.u, &all, 1))
		return 10;
	for (i = 0; i < 16; i++) {
		prep(&r, s, (char *)all.iov_base + i * page, 1000,
		     i < 15 ? MSG_MORE : 0)->ioprio =
			i & 1 ? IORING_RECVSEND_FIXED_BUF : 0;
		if (!submit(&r) || !wait_for(&r, i + 1, 0) ||
		    r.req[i].res != 1000)
			return 11;
	}
	if (r.notifs || *r.wrong)
		return 12;
	if (end == EXIT)
		return 0;
	was = now_ms();
	ring_close(&r);
	return now_ms() - was > EXIT_MS ? 13 : 0;
}

static void ring_ends(struct __test_metadata *const _metadata, struct conn *s,
		      enum end end)
{
	enum kind kind;

	for (kind = PLAIN; kind <= DEFER; kind++) {
		int mem = memory_file(16 * page), status = 0;
		struct conn child;
		long long until;
		pid_t pid;

		ASSERT_LE(0, mem);
		if (kind != PLAIN) {	/* the first socket is gone */
			ASSERT_EQ(0, unshare(CLONE_NEWNET));
			close(s->tun);
			ASSERT_EQ(0, system("ip link set lo up"));
			ASSERT_TRUE(s->lo ? connect_over_lo(s) :
				    connect_to_nobody(s));
		}
		/* A window that is full: what is not delivered is not copied. */
		child = *s;
		if (s->lo)
			while (send(s->snd, s->buf, page, MSG_DONTWAIT) > 0)
				;
		if (s->lo)
			ASSERT_EQ(0, set_int(s->snd, SOL_SOCKET, SO_SNDBUFFORCE, 16 << 20));
		pid = fork();
		if (!pid)
			_exit(child_sends(&child, mem, kind, end));
		ASSERT_TRUE(gone(pid, DEADLINE_MS, &status)) {
			kill(pid, SIGKILL);
		}
		EXPECT_EQ(0, status);
		/* The socket is still ours, and holds the data. */
		EXPECT_FALSE(unused(mem));
		close(s->snd);
		close(s->rcv);
		s->snd = -1;
		s->rcv = -1;
		/* Registered buffers stay until the ring is gone. */
		until = now_ms() + EXIT_MS;
		while (!unused(mem) && now_ms() < until)
			nap();
		ASSERT_TRUE(unused(mem));
		close(mem);
	}
}

BODY(ring_closes) { ring_ends(_metadata, s, CLOSE_RING); }
BODY(process_exits) { ring_ends(_metadata, s, EXIT); }

TEST_F_TIMEOUT(tcp, ring_closes, TIMEOUT)
{
	ring_closes(_metadata, &self->s);
}

TEST_F_TIMEOUT(tcp, process_exits, TIMEOUT)
{
	process_exits(_metadata, &self->s);
}

TEST_F_TIMEOUT(tcp_lo, ring_closes, TIMEOUT)
{
	ring_closes(_metadata, &self->s);
}

TEST_F_TIMEOUT(tcp_lo, process_exits, TIMEOUT)
{
	process_exits(_metadata, &self->s);
}

/* ---------- waiting ---------- */

static void *ack_later(void *arg)
{
	usleep(100 * 1000);
	return ack_all(arg) ? arg : NULL;
}

/* The waiter sleeps until all of a chain has completed at once. */
BODY(waiter_for_all_wakes)
{
	enum kind kind;

	for (kind = PLAIN; kind <= DEFER; kind++) {
		struct __kernel_timespec ts = { .tv_sec = 2 * DEADLINE_MS / 1000 };
		struct io_uring_getevents_arg arg = {
			.ts = (unsigned long)&ts,
			.sigmask_sz = _NSIG / 8,
		};
		const int sends = 10;
		pthread_t thread;
		long long end;
		struct ring r;
		void *ret;
		int i;

		ASSERT_TRUE(ring_open(&r, kind));
		for (i = 0; i < sends; i++)
			ASSERT_EQ(500, send_page(&r, s, i, 500, MSG_MORE, 0));
		tcp_uncork(s);
		ASSERT_EQ(0, r.notifs);
		ASSERT_EQ(0, pthread_create(&thread, NULL, ack_later, s));
		end = now_ms() + DEADLINE_MS;
		EXPECT_EQ(0, syscall(__NR_io_uring_enter, r.u.ring_fd, 0, sends,
				     IORING_ENTER_GETEVENTS |
				     IORING_ENTER_EXT_ARG, &arg, sizeof(arg)));
		/* Not by the timeout: that is no error when something came. */
		EXPECT_GT(end, now_ms());
		reap(&r);
		EXPECT_EQ(sends, r.notifs);
		pthread_join(thread, &ret);
		EXPECT_EQ(s, ret);
		EXPECT_STREQ("", finish(&r));
		set_int(s->snd, IPPROTO_TCP, TCP_NODELAY, 0);
		ring_close(&r);
	}
}

TEST_F_TIMEOUT(tcp, waiter_for_all_wakes, TIMEOUT)
{
	waiter_for_all_wakes(_metadata, &self->s);
}

/* ---------- locked memory ---------- */

static bool drop_privileges(size_t memlock)
{
	struct rlimit limit = { memlock, memlock };

	return !setrlimit(RLIMIT_MEMLOCK, &limit) &&
	       !setresgid(NOBODY, NOBODY, NOBODY) &&
	       !setresuid(NOBODY, NOBODY, NOBODY);
}

/*
 * What may not be locked is copied, nothing is refused: 64 KiB are not even
 * enough for 16 sends of a page.
 */
static void unprivileged(struct __test_metadata *const _metadata,
			 struct conn *s, int ack_every)
{
	const int sends = 2000;
	int i, refused = 0;
	struct ring r;

	ASSERT_TRUE(drop_privileges(64 << 10));
	ASSERT_TRUE(ring_open(&r, DEFER));
	for (i = 0; i < sends; i++) {
		int ret = send_page(&r, s, i, 4096, MSG_WAITALL,
				    IORING_SEND_ZC_REPORT_USAGE);

		refused += ret == -ENOMEM;
		if (ret != -ENOMEM)
			ASSERT_EQ(4096, ret);
		if (!s->lo && s->type == SOCK_STREAM && ack_every &&
		    !(i % ack_every)) {
			ASSERT_TRUE(ack_sent(s, 0));
		}
		if (s->lo)
			ASSERT_TRUE(receive(s));
	}
	EXPECT_EQ(0, refused);
	ASSERT_TRUE(settle(s));
	EXPECT_STREQ("", finish(&r));
	EXPECT_EQ(sends, r.notifs);
	if (!s->lo && s->type == SOCK_STREAM) {
		/* The first may; those that come when the limit is reached not. */
		EXPECT_FALSE(r.req[0].copied);
		EXPECT_LT(0, r.copied);
		EXPECT_GT(sends, r.copied);
	}
	ring_close(&r);
}

BODY(unprivileged_sends) { unprivileged(_metadata, s, 32); }
BODY(unprivileged_sends_stalled) { unprivileged(_metadata, s, 0); }

/* No page may be locked. A registered buffer is locked already. */
BODY(unprivileged_without_limit_left)
{
	const struct rlimit none = { 0, 0 };
	struct iovec all = { s->buf, 4 * page };
	struct ring r;
	int i;

	ASSERT_TRUE(drop_privileges(64 << 10));
	ASSERT_TRUE(ring_open(&r, DEFER));
	ASSERT_EQ(0, io_uring_register_buffers(&r.u, &all, 1));
	ASSERT_EQ(0, setrlimit(RLIMIT_MEMLOCK, &none));
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(500, send_page(&r, s, i, 500, 0,
					 IORING_SEND_ZC_REPORT_USAGE));
	}
	/* Copied: no need to wait for the peer. */
	EXPECT_EQ(20, r.notifs);
	EXPECT_EQ(20, r.copied);
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(500, send_page(&r, s, i % 4, 500, 0,
					 IORING_SEND_ZC_REPORT_USAGE |
					 IORING_RECVSEND_FIXED_BUF));
	}
	ASSERT_TRUE(settle(s));
	EXPECT_STREQ("", finish(&r));
	EXPECT_EQ(40, r.notifs);
	EXPECT_EQ(20, r.copied);
	ring_close(&r);
}

TEST_F_TIMEOUT(tcp, unprivileged_without_limit_left, TIMEOUT)
{
	unprivileged_without_limit_left(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp, unprivileged_without_limit_left, TIMEOUT)
{
	unprivileged_without_limit_left(_metadata, &self->s);
}

TEST_F_TIMEOUT(tcp, unprivileged_sends, TIMEOUT)
{
	unprivileged_sends(_metadata, &self->s);
}

TEST_F_TIMEOUT(tcp, unprivileged_sends_stalled, TIMEOUT)
{
	unprivileged_sends_stalled(_metadata, &self->s);
}

TEST_F_TIMEOUT(tcp_lo, unprivileged_sends, TIMEOUT)
{
	unprivileged_sends(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp, unprivileged_sends, TIMEOUT)
{
	unprivileged_sends(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp_lo, unprivileged_sends, TIMEOUT)
{
	unprivileged_sends(_metadata, &self->s);
}

/* ---------- which requests have a notification ---------- */

static void notif_iff_more_in(struct __test_metadata *const _metadata,
			      struct conn *s, enum kind kind)
{
	unsigned char *hole = mmap(NULL, page, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec iov = { s->buf, 100 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct io_uring_sqe *sqe;
	int pair[2], file;
	struct conn other;
	struct ring r;
	unsigned int i;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	file = open("/dev/null", O_RDWR);
	ASSERT_TRUE(ring_open(&r, kind));

	/* 0, 1: sent. */
	fill(s->buf, s->in, 100);
	fill(s->buf + page, s->in + 100, 100);
	prep(&r, s, s->buf, 100, 0);
	iov.iov_base = s->buf + page;
	prep_msg(&r, s, &msg, 0);
	ASSERT_TRUE(submit(&r));
	EXPECT_EQ(100, r.req[0].res);
	EXPECT_EQ(100, r.req[1].res);
	EXPECT_EQ(2, r.mores);
	s->in += 200;

	/* 2: memory that is not there. */
	prep(&r, s, hole, 100, 0);
	/* 3, 4: a socket that cannot, no socket. */
	other = *s;
	other.snd = pair[0];
	prep(&r, &other, s->buf, 100, 0);
	other.snd = file;
	prep(&r, &other, s->buf, 100, 0);
	/* 5: no such file. */
	other.snd = 1000;
	prep(&r, &other, s->buf, 100, 0);
	/* 6: no such flag; 7: no such field; 8: not with this flag. */
	prep(&r, s, s->buf, 100, 0)->ioprio = 0x8000;
	prep(&r, s, s->buf, 100, 0)->__pad2[0] = 1;
	prep(&r, s, s->buf, 100, 0)->flags = IOSQE_CQE_SKIP_SUCCESS;
	/* 9: no such buffer. */
	sqe = prep(&r, s, s->buf, 100, 0);
	sqe->ioprio = IORING_RECVSEND_FIXED_BUF;
	sqe->buf_index = 7;
	/* 10, 11: behind one that fails. */
	prep(&r, s, hole, 100, 0)->flags = IOSQE_IO_LINK;
	prep(&r, s, s->buf, 100, 0);
	/* 12: a message that is not there. */
	prep_msg(&r, s, (void *)hole, 0);
	/* An error in the preparation ends a submission: send the rest. */
	for (i = 0; i < 16 && *r.u.sq.ktail + (r.u.sq.sqe_tail - r.u.sq.sqe_head) !=
	     *r.u.sq.khead; i++)
		submit(&r);
	ASSERT_TRUE(wait_for(&r, r.sent, 0));

	EXPECT_EQ(-EFAULT, r.req[2].res);
	EXPECT_EQ(-EOPNOTSUPP, r.req[3].res);
	EXPECT_EQ(-ENOTSOCK, r.req[4].res);
	EXPECT_EQ(-EBADF, r.req[5].res);
	EXPECT_EQ(-EINVAL, r.req[6].res);
	EXPECT_EQ(-EINVAL, r.req[7].res);
	EXPECT_EQ(-EINVAL, r.req[8].res);
	EXPECT_EQ(-EFAULT, r.req[9].res);
	EXPECT_EQ(-EFAULT, r.req[10].res);
	EXPECT_EQ(-ECANCELED, r.req[11].res);
	EXPECT_EQ(-EFAULT, r.req[12].res);
	/* Those that never got so far as to have one. */
	EXPECT_FALSE(r.req[7].more);
	EXPECT_FALSE(r.req[8].more);
	ASSERT_TRUE(settle(s));
	EXPECT_STREQ("", finish(&r));
	close(pair[0]);
	close(pair[1]);
	close(file);
	munmap(hole, page);
	ring_close(&r);
}

BODY(notif_iff_more)
{
	notif_iff_more_in(_metadata, s, PLAIN);
	notif_iff_more_in(_metadata, s, DEFER);
}

TEST_F_TIMEOUT(tcp, notif_iff_more, TIMEOUT)
{
	notif_iff_more(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp, notif_iff_more, TIMEOUT)
{
	notif_iff_more(_metadata, &self->s);
}

TEST_F_TIMEOUT(tcp_lo, notif_iff_more, TIMEOUT)
{
	notif_iff_more(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp_lo, notif_iff_more, TIMEOUT)
{
	notif_iff_more(_metadata, &self->s);
}

/* In a worker the request completes behind the send, its notification later. */
BODY(async_order)
{
	enum kind kind;
	int i, k;

	for (kind = PLAIN; kind <= DEFER; kind++) {
		struct ring r;

		ASSERT_TRUE(ring_open(&r, kind));
		for (i = 0; i < 40; i++) {
			/* Several at once, which the workers put in any order. */
			for (k = 0; k < 8; k++)
				prep(&r, s, s->buf, 1, 0)->flags = IOSQE_ASYNC;
			s->buf[0] = byte_at(0);
			ASSERT_TRUE(submit(&r));
			if (!s->lo && s->type == SOCK_STREAM)
				ASSERT_TRUE(wait_for(&r, r.sent, 0) && ack_all(s));
			ASSERT_STREQ("", finish(&r));
			for (k = 0; k < 8; k++)
				ASSERT_EQ(1, r.req[i * 8 + k].res);
			for (k = 0; s->lo && k < 8; k++)
				ASSERT_EQ(1, recv(s->rcv, s->buf + page, 1, 0));
		}
		ring_close(&r);
	}
}

TEST_F_TIMEOUT(tcp, async_order, TIMEOUT)
{
	async_order(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp, async_order, TIMEOUT)
{
	async_order(_metadata, &self->s);
}

TEST_F_TIMEOUT(tcp_lo, async_order, TIMEOUT)
{
	async_order(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp_lo, async_order, TIMEOUT)
{
	async_order(_metadata, &self->s);
}

BODY(poll_first)
{
	struct ring r;
	int i;

	ASSERT_TRUE(ring_open(&r, DEFER));
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(500, send_page(&r, s, i, 500,
					 s->type == SOCK_STREAM && i < 19 ? MSG_MORE : 0,
					 IORING_RECVSEND_POLL_FIRST));
	}
	ASSERT_TRUE(settle(s));
	EXPECT_STREQ("", finish(&r));
	EXPECT_EQ(20, r.notifs);
	ring_close(&r);
}

TEST_F_TIMEOUT(tcp, poll_first, TIMEOUT)
{
	poll_first(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp, poll_first, TIMEOUT)
{
	poll_first(_metadata, &self->s);
}

TEST_F_TIMEOUT(tcp_lo, poll_first, TIMEOUT)
{
	poll_first(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp_lo, poll_first, TIMEOUT)
{
	poll_first(_metadata, &self->s);
}

/* Requests that wait for room and are cancelled, before and after a part. */
BODY(cancelled)
{
	enum kind kind;
	int part;

	for (kind = PLAIN; kind <= DEFER; kind++)
		for (part = 0; part < 2; part++) {
			struct io_uring_sqe *sqe;
			unsigned int id;
			struct ring r;
			int n;

			ASSERT_EQ(0, set_int(s->snd, SOL_SOCKET, SO_SNDBUFFORCE,
					     1 << 16));
			ASSERT_TRUE(ring_open(&r, kind));
			while (!part &&
			       (n = send(s->snd, s->buf, 1000, MSG_DONTWAIT)) > 0)
				;
			id = r.sent;
			prep(&r, s, s->buf, PIECES * page, MSG_WAITALL);
			ASSERT_TRUE(submit(&r));
			usleep(10 * 1000);
			collect(&r);
			EXPECT_EQ(0, r.done);
			sqe = get_sqe(&r, IORING_OP_ASYNC_CANCEL, -1);
			sqe->addr = r.tag | id;
			ASSERT_TRUE(submit(&r));
			ASSERT_TRUE(wait_for(&r, 2, 0));
			EXPECT_EQ(0, r.req[id + 1].res);
			EXPECT_TRUE(r.req[id].more);
			EXPECT_TRUE(part ? r.req[id].res > 0 :
					   r.req[id].res == -ECANCELED);
			/* Nothing of it was sent: nothing to wait for. */
			if (!part)
				EXPECT_STREQ("", finish(&r));
			ASSERT_TRUE(ack_all(s));
			EXPECT_STREQ("", finish(&r));
			EXPECT_EQ(1, r.notifs);
			ring_close(&r);
		}
}

TEST_F_TIMEOUT(tcp, cancelled, TIMEOUT)
{
	cancelled(_metadata, &self->s);
}

/* ---------- chains ---------- */

/*
 * A stream that never runs dry: each request ends on an skb that waits for
 * more, on which the next one begins. The last bytes are never acknowledged.
 */
BODY(chain_is_bounded)
{
	const int len = 4096 + 100, sends = 1500;
	int i, last, outstanding, most = 0;
	struct ring r;

	ASSERT_TRUE(ring_open(&r, DEFER));
	ASSERT_EQ(0, set_int(s->snd, IPPROTO_TCP, TCP_CORK, 1));
	for (i = 0; i < sends; i++) {
		prep(&r, s, s->buf + 2 * (i % (PIECES / 2)) * page, len, MSG_MORE);
		ASSERT_TRUE(submit(&r));
		ASSERT_EQ(len, r.req[i].res);
		/* Never all of it, or TCP would begin a new skb by itself. */
		ASSERT_TRUE(ack_sent(s, MSS));
		collect(&r);
		outstanding = r.done - r.notifs;
		if (outstanding > most)
			most = outstanding;
	}
	last = r.notifs;
	ASSERT_EQ(0, set_int(s->snd, IPPROTO_TCP, TCP_CORK, 0));
	ASSERT_TRUE(ack_all(s));
	EXPECT_STREQ("", finish(&r));
	EXPECT_EQ(sends, r.notifs);
	/* A full chain, the next one, and what is not acknowledged. */
	EXPECT_LE(sends - (2 * CHAIN_BYTES + (1 << 17)) / len, last);
	EXPECT_GE((2 * CHAIN_BYTES + (1 << 17)) / len, most);
	/* Chains there are: not one by one. */
	EXPECT_LE(CHAIN_BYTES / len / 2, most);
	ring_close(&r);
}

TEST_F_TIMEOUT(tcp, chain_is_bounded, TIMEOUT)
{
	chain_is_bounded(_metadata, &self->s);
}

/* Its second page is not there. */
BODY(failed_send_waits_for_nobody)
{
	int before, fixed;

	for (before = 0; before < 2; before++)
		for (fixed = 0; fixed <= before; fixed++) {
			unsigned char *two = mmap(NULL, 2 * page,
						  PROT_READ | PROT_WRITE,
						  MAP_PRIVATE | MAP_ANONYMOUS,
						  -1, 0);
			struct iovec all = { s->buf, PIECES * page };
			struct iovec iov[2] = {
				{ two, 200 }, { two + page, 200 }
			};
			struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };
			struct ring r;

			ASSERT_EQ(0, mprotect(two + page, page, PROT_NONE));
			ASSERT_TRUE(ring_open(&r, DEFER));
			ASSERT_EQ(0, io_uring_register_buffers(&r.u, &all, 1));
			if (before) {
				ASSERT_EQ(500, send_page(&r, s, 0, 500, MSG_MORE,
							 fixed ? IORING_RECVSEND_FIXED_BUF : 0));
			}
			prep_msg(&r, s, &msg, MSG_MORE);
			ASSERT_TRUE(submit(&r));
			EXPECT_EQ(-EFAULT, r.req[before].res);
			EXPECT_TRUE(r.req[before].more);
			/* Now, not when the other data has arrived. */
			EXPECT_EQ(1, r.notifs);
			EXPECT_TRUE(r.req[before].notified);
			/* What was there is as it was: another can be linked. */
			ASSERT_EQ(500, send_page(&r, s, 1, 500, MSG_MORE, 0));
			EXPECT_EQ(1, r.notifs);
			tcp_uncork(s);
			ASSERT_TRUE(ack_all(s));
			EXPECT_STREQ("", finish(&r));
			EXPECT_EQ(before + 2, r.notifs);
			set_int(s->snd, IPPROTO_TCP, TCP_NODELAY, 0);
			ring_close(&r);
			munmap(two, 2 * page);
		}
}

TEST_F_TIMEOUT(tcp, failed_send_waits_for_nobody, TIMEOUT)
{
	failed_send_waits_for_nobody(_metadata, &self->s);
}

/* ---------- registered and other memory ---------- */

/*
 * Both kinds on the same skbs. When all is queued and little delivered, the
 * buffers are unregistered and the memory is unmapped and replaced.
 */
BODY(buffers_mixed_and_unregistered)
{
	const size_t len = 1000, pages = 256;
	struct ring r;
	size_t i;

	ASSERT_TRUE(ring_open(&r, DEFER));
	for (i = 0; i < 2; i++) {
		unsigned char *mem = mmap(NULL, pages * page,
					  PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct iovec all = { mem, pages * page };
		__u64 before = s->out;
		unsigned int notifs, n = 0;

		ASSERT_NE(MAP_FAILED, mem);
		ASSERT_EQ(0, io_uring_register_buffers(&r.u, &all, 1));
		while (n < pages) {
			unsigned int id = r.sent;
			/* Runs of 1, 2, 3... of a kind. */
			bool fixed = (n * 8 / 7) & 1 ? n % 3 : n % 5 < 2;

			fill(mem + n * page, s->in, len);
			prep(&r, s, mem + n * page, len, n % 23 ? MSG_MORE : 0)->ioprio =
				fixed ? IORING_RECVSEND_FIXED_BUF : 0;
			ASSERT_TRUE(submit(&r));
			ASSERT_EQ(len, r.req[id].res);
			s->in += len;
			n++;
		}
		tcp_uncork(s);
		notifs = r.notifs;
		if (i) {
			ASSERT_EQ(0, syscall(__NR_io_uring_register, r.u.ring_fd,
					     IORING_UNREGISTER_BUFFERS, NULL, 0));
		}
		ASSERT_EQ(0, munmap(mem, pages * page));
		mem = mmap(NULL, 2 * pages * page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		ASSERT_NE(MAP_FAILED, mem);
		memset(mem, 0x55, 2 * pages * page);
		/* Some of it was in flight, or this shows nothing. */
		EXPECT_GT(pages * (i + 1), notifs);
		EXPECT_LT(before, s->in);
		ASSERT_TRUE(receive_to(s, s->in));
		EXPECT_STREQ("", finish(&r));
		munmap(mem, 2 * pages * page);
		if (!i) {
			ASSERT_EQ(0, syscall(__NR_io_uring_register, r.u.ring_fd,
					     IORING_UNREGISTER_BUFFERS, NULL, 0));
		}
		set_int(s->snd, IPPROTO_TCP, TCP_NODELAY, 0);
	}
	ring_close(&r);
}

TEST_F_TIMEOUT(tcp_lo, buffers_mixed_and_unregistered, TIMEOUT)
{
	buffers_mixed_and_unregistered(_metadata, &self->s);
}

/* ---------- with MSG_ZEROCOPY ---------- */

/* Takes all of the error queue: the number of sends that it tells of. */
static int error_queue(struct conn *s, bool *wrong)
{
	char control[256];
	int sends = 0;

	for (;;) {
		struct sock_extended_err *err;
		struct cmsghdr *cm;
		struct msghdr msg = {
			.msg_control = control,
			.msg_controllen = sizeof(control),
		};

		if (recvmsg(s->snd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			return sends;
		cm = CMSG_FIRSTHDR(&msg);
		err = cm ? (void *)CMSG_DATA(cm) : NULL;
		if (!err || err->ee_origin != SO_EE_ORIGIN_ZEROCOPY ||
		    err->ee_errno)
			*wrong = true;
		else
			sends += err->ee_data - err->ee_info + 1;
	}
}

/* Two providers: neither may take the other's for its own. */
BODY(with_msg_zerocopy)
{
	bool tcp = s->type == SOCK_STREAM, wrong = false;
	int i, ret, sync = 0, got = 0;
	const int len = 500;
	long long end;
	struct ring r;

	ASSERT_EQ(0, set_int(s->snd, SOL_SOCKET, SO_ZEROCOPY, 1));
	ASSERT_TRUE(ring_open(&r, DEFER));
	for (i = 0; i < 60; i++) {
		int more = tcp && i < 59 ? MSG_MORE : 0;
		unsigned char *from = s->buf + i * page;

		/* Runs of one kind, and plain ones between them. */
		switch ((i / 3 + i % 2 * (i > 30)) % 3) {
		case 0:
			fill(from, s->in, len);
			ret = send(s->snd, from, len, MSG_ZEROCOPY | more);
			ASSERT_EQ(len, ret) {
				TH_LOG("send %d: %s", i, strerror(errno));
			}
			s->in += len;
			sync++;
			break;
		case 1:
			ASSERT_EQ(len, send_page(&r, s, i, len, more, 0));
			break;
		default:
			fill(from, s->in, len);
			ASSERT_EQ(len, send(s->snd, from, len, more));
			s->in += len;
		}
		if (!tcp && s->lo)
			ASSERT_TRUE(receive_to(s, s->in));
	}
	ASSERT_TRUE(settle(s));
	EXPECT_STREQ("", finish(&r));
	EXPECT_EQ(r.sent, r.notifs);
	for (end = now_ms() + DEADLINE_MS; got < sync && now_ms() < end; nap())
		got += error_queue(s, &wrong);
	EXPECT_EQ(sync, got);
	EXPECT_FALSE(wrong);
	ring_close(&r);
}

TEST_F_TIMEOUT(tcp, with_msg_zerocopy, TIMEOUT)
{
	with_msg_zerocopy(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp, with_msg_zerocopy, TIMEOUT)
{
	with_msg_zerocopy(_metadata, &self->s);
}

TEST_F_TIMEOUT(tcp_lo, with_msg_zerocopy, TIMEOUT)
{
	with_msg_zerocopy(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp_lo, with_msg_zerocopy, TIMEOUT)
{
	with_msg_zerocopy(_metadata, &self->s);
}

/* ---------- corked datagrams ---------- */

/* How a datagram is corked, and whether its checksum is left to the device. */
enum cork { MORE, MORE_SEGMENTS, CORK, CORK_SEGMENTS, CORKS };

static bool by_more(enum cork how)
{
	return how == MORE || how == MORE_SEGMENTS;
}

static bool in_segments(enum cork how)
{
	return how == MORE_SEGMENTS || how == CORK_SEGMENTS;
}

static void cork(struct conn *s, enum cork how, bool on)
{
	if (!by_more(how))
		set_int(s->snd, SOL_UDP, UDP_CORK, on);
	if (in_segments(how))
		set_int(s->snd, SOL_UDP, UDP_SEGMENT, on ? MSS : 0);
}

static bool receive_datagram(struct conn *s, int len)
{
	unsigned char data[2000];
	int i;

	if (recv(s->rcv, data, sizeof(data), 0) != len)
		return false;
	for (i = 0; i < len; i++)
		if (data[i] != byte_at(s->out++))
			return false;
	return true;
}

/*
 * A datagram of several requests has several notifications. In segments its
 * checksum is left to the device, which is when it can go without a copy.
 */
static void corked(struct __test_metadata *const _metadata, struct conn *s,
		   enum cork how)
{
	const unsigned int parts = 8;
	bool copied = s->lo || !in_segments(how);
	unsigned int i, d;
	struct ring r;

	ASSERT_TRUE(ring_open(&r, DEFER));
	for (d = 0; d < 3; d++) {
		cork(s, how, true);
		for (i = 0; i < parts; i++) {
			ASSERT_EQ(100, send_page(&r, s, i, 100,
						 by_more(how) && i < parts - 1 ? MSG_MORE : 0,
						 IORING_SEND_ZC_REPORT_USAGE));
		}
		if (how == CORK_SEGMENTS)
			EXPECT_EQ(d * parts, r.notifs);
		cork(s, how, false);
		ASSERT_TRUE(!s->lo || receive_datagram(s, 100 * parts));
		EXPECT_STREQ("", finish(&r));
		EXPECT_EQ((d + 1) * parts, r.notifs);
		EXPECT_EQ(copied ? r.notifs : 0, r.copied);
	}
	ring_close(&r);
}

BODY(corked_by_more) { corked(_metadata, s, MORE); }
BODY(corked_by_more_in_segments) { corked(_metadata, s, MORE_SEGMENTS); }
BODY(corked_by_option) { corked(_metadata, s, CORK); }
BODY(corked_by_option_in_segments) { corked(_metadata, s, CORK_SEGMENTS); }

TEST_F_TIMEOUT(udp, corked_by_more, TIMEOUT)
{
	corked_by_more(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp, corked_by_more_in_segments, TIMEOUT)
{
	corked_by_more_in_segments(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp, corked_by_option, TIMEOUT)
{
	corked_by_option(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp, corked_by_option_in_segments, TIMEOUT)
{
	corked_by_option_in_segments(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp_lo, corked_by_more, TIMEOUT)
{
	corked_by_more(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp_lo, corked_by_more_in_segments, TIMEOUT)
{
	corked_by_more_in_segments(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp_lo, corked_by_option, TIMEOUT)
{
	corked_by_option(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp_lo, corked_by_option_in_segments, TIMEOUT)
{
	corked_by_option_in_segments(_metadata, &self->s);
}

/* Pieces of two rings: a notification of the other ring is not linked. */
BODY(corked_by_two_rings)
{
	enum cork how;
	struct ring r[2];
	int i;

	ASSERT_TRUE(ring_open(&r[0], DEFER));
	ASSERT_TRUE(ring_open(&r[1], PLAIN));
	for (how = MORE; how < CORKS; how++) {
		cork(s, how, true);
		for (i = 0; i < 6; i++) {
			ASSERT_EQ(100, send_page(&r[i & 1], s, i, 100,
						 by_more(how) && i < 5 ? MSG_MORE : 0, 0));
		}
		cork(s, how, false);
		ASSERT_TRUE(!s->lo || receive_datagram(s, 600));
		for (i = 0; i < 2; i++) {
			EXPECT_STREQ("", finish(&r[i]));
			EXPECT_EQ(r[i].sent, r[i].notifs);
		}
	}
	ring_close(&r[0]);
	ring_close(&r[1]);
}

TEST_F_TIMEOUT(udp, corked_by_two_rings, TIMEOUT)
{
	corked_by_two_rings(_metadata, &self->s);
}

TEST_F_TIMEOUT(udp_lo, corked_by_two_rings, TIMEOUT)
{
	corked_by_two_rings(_metadata, &self->s);
}

/* Not sent after all: the notifications come nevertheless, and only then. */
BODY(corked_and_dropped)
{
	struct ring r;
	int fails, i;

	ASSERT_TRUE(ring_open(&r, DEFER));
	for (fails = 1; fails >= 0; fails--) {
		unsigned int before = r.notifs;

		cork(s, CORK_SEGMENTS, true);
		for (i = 0; i < 4; i++)
			ASSERT_EQ(100, send_page(&r, s, i, 100, 0, 0));
		EXPECT_EQ(before, r.notifs);
		if (fails) {
			/* An error in a piece drops the whole datagram. */
			prep(&r, s, NULL, 100, 0);
			ASSERT_TRUE(submit(&r));
			EXPECT_EQ(-EFAULT, r.req[4].res);
			EXPECT_STREQ("", finish(&r));
			EXPECT_EQ(5, r.notifs);
			cork(s, CORK_SEGMENTS, false);
		}
	}
	close(s->snd);
	s->snd = -1;
	EXPECT_STREQ("", finish(&r));
	EXPECT_EQ(r.sent, r.notifs);
	ring_close(&r);
}

TEST_F_TIMEOUT(udp, corked_and_dropped, TIMEOUT)
{
	corked_and_dropped(_metadata, &self->s);
}

/* ---------- packet loss ---------- */

/*
 * Packets wait in the queue of a device that loses some and sends some out of
 * order. A buffer is overwritten as soon as its notification has come: a byte
 * that is sent later is wrong.
 */
BODY(packet_loss)
{
	const int total = 4000, mtus[] = { 65536, 9000, 1500, 4000 };
	unsigned int owner[PIECES];
	long long end;
	struct ring r;
	int i, k;

	if (system("tc qdisc add dev lo root netem limit 10000 delay 2ms loss 2% reorder 5%"))
		SKIP(return, "no netem");
	ASSERT_TRUE(ring_open(&r, DEFER));
	for (i = 0; i < total; i++) {
		unsigned char *from = s->buf + i % PIECES * page;
		size_t len = 100 + i % 13 * 150;

		if (!(i % 500)) {
			char cmd[64];

			sprintf(cmd, "ip link set lo mtu %d", mtus[i / 500 % 4]);
			ASSERT_EQ(0, system(cmd));
		}
		/* The buffer is free again. */
		end = now_ms() + 4 * DEADLINE_MS;
		while (i >= PIECES && !r.req[owner[i % PIECES]].notified) {
			collect(&r);
			/* Others that are free by now. */
			for (k = 0; k < PIECES; k++)
				if (r.req[owner[k]].notified)
					memset(s->buf + k * page, 0xee, page);
			ASSERT_TRUE(receive(s));
			if (r.req[owner[i % PIECES]].notified)
				break;
			/* What is corked is not sent by itself. */
			tcp_uncork(s);
			set_int(s->snd, IPPROTO_TCP, TCP_NODELAY, 0);
			ASSERT_GT(end, now_ms());
			usleep(100);
		}
		owner[i % PIECES] = r.sent;
		fill(from, s->in, len);
		prep(&r, s, from, len, i % 11 ? MSG_MORE : 0);
		ASSERT_TRUE(submit(&r));
		ASSERT_EQ(len, r.req[owner[i % PIECES]].res);
		s->in += len;
		ASSERT_TRUE(receive(s));
	}
	tcp_uncork(s);
	end = now_ms() + 4 * DEADLINE_MS;
	while (s->out < s->in && now_ms() < end) {
		ASSERT_TRUE(receive(s));
		nap();
	}
	EXPECT_EQ(s->in, s->out);
	EXPECT_STREQ("", finish(&r));
	EXPECT_EQ(total, r.notifs);
	ring_close(&r);
}

TEST_F_TIMEOUT(tcp_lo, packet_loss, 200)
{
	packet_loss(_metadata, &self->s);
}

TEST_HARNESS_MAIN
