// SPDX-License-Identifier: GPL-2.0
/*
 * MSG_ZEROCOPY notifications that sendmsg() hands back: SCM_ZC_NOTIFICATION.
 *
 * A control message in sendmsg() offers room for ranges of finished sends.
 * They leave the socket's error queue and are written in place, after the
 * attempt to send, and only if that changes nothing else.
 *
 * result() looks at everything that holds for any call: no byte of the control
 * buffer changes but the size and the elements that it counts, those are well
 * formed, and no id comes twice.  queue() reads the error queue in words like
 * "t0 z0-2": a timestamp, then the notification of sends 0 to 2.  When a test
 * ends all ids must have come, by one of the two ways.
 *
 * What is sent goes over the loopback device or transport.
 * ZC_NOTIFICATION_SENDS sets the length of the long transfer.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/errqueue.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <linux/userfaultfd.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <io_uring/mini_liburing.h>
#include "kselftest_harness.h"

#ifndef AF_VSOCK
#define AF_VSOCK	40
#endif
#ifndef PF_RDS
#define PF_RDS		21
#endif
#ifndef MSG_ZEROCOPY
#define MSG_ZEROCOPY	0x4000000
#endif
#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY	60
#endif
#ifndef SCM_ZC_NOTIFICATION
#define SCM_ZC_NOTIFICATION	86
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY	1
#endif
#ifndef ZC_NOTIFICATION_MAX
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

#define ZC_NOTIFICATION_MAX	64
#endif

#define DEADLINE_MS	5000
#define PAYLOAD		1000
#define WALK_MAX	128		/* other entries that a call passes */
#define MAX_IDS		(2 * 1024 * 1024)
#define AREA_PAGES	4

static size_t page;
static unsigned char payload[1 << 16];

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

/* ---------- a connection, and which ids came back on it ---------- */

struct conn {
	int domain, type;
	int snd, rcv;
	struct sockaddr_storage peer;	/* where to, when not connected */
	socklen_t peer_len;
	bool zerocopy;			/* nothing on the way copies */
	unsigned long long in, out;	/* bytes sent and received */
	atomic_uint sent;		/* sends with MSG_ZEROCOPY */
	atomic_uint got;		/* ids that came back */
	atomic_bool wrong;
	atomic_uchar *seen;

	/* The control buffer, and what was in it before the call. */
	unsigned char *area, *buf, *info;
	unsigned char was[AREA_PAGES * 65536];
	size_t len;
	__u32 room;

	char words[16384], ranges[4096];
};

static bool is_udp(const struct conn *s)
{
	return s->type == SOCK_DGRAM;
}

static bool is_tcp(const struct conn *s)
{
	return s->domain != AF_VSOCK && s->type == SOCK_STREAM;
}

static void mark(struct conn *s, __u32 lo, __u32 hi)
{
	__u32 id = lo;

	if (hi < lo || hi >= MAX_IDS) {
		s->wrong = true;
		return;
	}

	do {
		if (s->seen[id]++)
			s->wrong = true;
		s->got++;
	} while (id++ != hi);
}

static int set_int(int fd, int level, int name, int val)
{
	return setsockopt(fd, level, name, &val, sizeof(val));
}

static int get_int(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int val = -1;

	return getsockopt(fd, level, name, &val, &len) ? -errno : val;
}

static socklen_t local_address(int domain, struct sockaddr_storage *addr)
{
	struct sockaddr_vm *vm = (void *)addr;
	struct sockaddr_in6 *in6 = (void *)addr;
	struct sockaddr_in *in = (void *)addr;

	memset(addr, 0, sizeof(*addr));
	addr->ss_family = domain;
	switch (domain) {
	case AF_VSOCK:
		vm->svm_cid = VMADDR_CID_LOCAL;
		vm->svm_port = VMADDR_PORT_ANY;
		return sizeof(*vm);
	case AF_INET6:
		in6->sin6_addr = in6addr_loopback;
		return sizeof(*in6);
	default:
		in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		return sizeof(*in);
	}
}

/* Where a datagram to nobody may go: a port that was free a moment ago. */
static socklen_t nobody(int domain, struct sockaddr_storage *addr)
{
	socklen_t len = local_address(domain, addr);
	int fd = socket(domain, SOCK_DGRAM, 0);

	if (bind(fd, (void *)addr, len) ||
	    getsockname(fd, (void *)addr, &len))
		len = 0;
	close(fd);

	return len;
}

static bool connect_pair(struct conn *s)
{
	struct sockaddr_storage addr;
	socklen_t len = local_address(s->domain, &addr);
	int fd = socket(s->domain, s->type, 0);

	s->snd = socket(s->domain, s->type, 0);
	if (fd < 0 || s->snd < 0 || bind(fd, (void *)&addr, len) ||
	    getsockname(fd, (void *)&addr, &len))
		return false;

	if (s->domain != AF_VSOCK) {
		set_int(fd, SOL_SOCKET, SO_RCVBUF, 1 << 17);
		set_int(s->snd, SOL_SOCKET, SO_SNDBUF, 1 << 17);
	}

	if (is_udp(s)) {
		s->rcv = fd;
		return !connect(s->snd, (void *)&addr, len);
	}

	if (listen(fd, 1) || connect(s->snd, (void *)&addr, len))
		return false;
	s->rcv = accept(fd, NULL, NULL);
	close(fd);
	if (is_tcp(s))
		set_int(s->snd, IPPROTO_TCP, TCP_NODELAY, 1);

	return s->rcv >= 0;
}

/* ---------- the control buffer ---------- */

/* @at counts from the start of the area. */
static void begin(struct conn *s, size_t at)
{
	memset(s->area, 0xaa, AREA_PAGES * page);
	s->buf = s->area + at;
	s->info = NULL;
	s->len = 0;
}

/* The header may lie anywhere, so it is copied. */
static unsigned char *put(struct conn *s, int level, int type,
			  const void *data, size_t len)
{
	struct cmsghdr h = {
		.cmsg_len = CMSG_LEN(len),
		.cmsg_level = level,
		.cmsg_type = type,
	};
	unsigned char *at = s->buf + s->len;

	memcpy(at, &h, sizeof(h));
	if (data)
		memcpy(at + CMSG_LEN(0), data, len);
	s->len += CMSG_SPACE(len);

	return at + CMSG_LEN(0);
}

static size_t info_len(__u32 room)
{
	return sizeof(struct zc_info) + room * sizeof(struct zc_info_elem);
}

static void set_room(struct conn *s, __u32 room)
{
	s->room = room;
	memcpy(s->info, &room, sizeof(room));
}

static void put_zc(struct conn *s, __u32 room)
{
	s->info = put(s, SOL_SOCKET, SCM_ZC_NOTIFICATION, NULL,
		      info_len(room));
	set_room(s, room);
}

/* This send gets a timestamp on the error queue. */
static void put_stamp(struct conn *s)
{
	__u32 flags = SOF_TIMESTAMPING_TX_SOFTWARE;

	put(s, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags));
}

static void ask(struct conn *s, __u32 room)
{
	begin(s, 0);
	put_zc(s, room);
}

static struct zc_info_elem element(const struct conn *s, __u32 i)
{
	struct zc_info_elem e;

	memcpy(&e, s->info + info_len(i), sizeof(e));
	return e;
}

/*
 * What became of the message: "untouched", the ranges as in "0-2 3-3", or what
 * is wrong with it.
 */
static const char *result(struct conn *s)
{
	size_t i, area = AREA_PAGES * page;
	char *w = s->ranges;
	__u32 n, k;

	if (!memcmp(s->area, s->was, area))
		return "untouched";

	*w = 0;
	memcpy(&n, s->info, sizeof(n));
	if (n > s->room || n > ZC_NOTIFICATION_MAX) {
		sprintf(w, "size %u of %u", n, s->room);
		return w;
	}

	memcpy(s->was + (s->info - s->area), s->info, info_len(n));
	for (i = 0; i < area; i++)
		if (s->area[i] != s->was[i]) {
			sprintf(w, "byte %zd has changed",
				s->area + i - s->buf);
			return w;
		}

	for (k = 0; k < n; k++) {
		struct zc_info_elem e = element(s, k);

		if (e.reserved[0] || e.reserved[1] || e.reserved[2])
			return "reserved is not zero";
		if (e.zerocopy != s->zerocopy)
			return "wrong zerocopy";
		mark(s, e.lo, e.hi);
		w += sprintf(w, "%s%u-%u", k ? " " : "", e.lo, e.hi);
	}

	return s->ranges;
}

/* Ranges, or none. */
static bool some(const char *result)
{
	return !*result || (*result >= '0' && *result <= '9');
}

/* ---------- sending ---------- */

static struct msghdr message(struct conn *s, struct iovec *iov)
{
	struct msghdr msg = {
		.msg_name = s->peer_len ? &s->peer : NULL,
		.msg_namelen = s->peer_len,
		.msg_iov = iov,
		.msg_iovlen = 1,
		.msg_control = s->len ? s->buf : NULL,
		.msg_controllen = s->len,
	};

	memcpy(s->was, s->area, AREA_PAGES * page);
	return msg;
}

static void count(struct conn *s, ssize_t ret, int flags)
{
	if (ret <= 0)
		return;
	s->in += ret;
	if (flags & MSG_ZEROCOPY)
		s->sent++;
}

static ssize_t send_from(struct conn *s, const void *from, size_t len,
			 int flags)
{
	struct iovec iov = { (void *)from, len };
	struct msghdr msg = message(s, &iov);
	ssize_t ret = sendmsg(s->snd, &msg, flags | MSG_NOSIGNAL);

	if (ret < 0)
		return -errno;
	count(s, ret, flags);
	return ret;
}

/* With what is in the control buffer. */
static ssize_t send_it(struct conn *s, int flags)
{
	return send_from(s, payload, PAYLOAD, flags);
}

static ssize_t send_plain(struct conn *s, int flags)
{
	begin(s, 0);
	return send_it(s, flags);
}

/* What a send that offers @room gets, or its error. */
static const char *probe(struct conn *s, __u32 room)
{
	ssize_t ret;

	ask(s, room);
	ret = send_it(s, MSG_DONTWAIT);
	if (ret != PAYLOAD) {
		sprintf(s->ranges, "sendmsg() returns %zd", ret);
		return s->ranges;
	}

	return result(s);
}

/* ---------- receiving ---------- */

static short events(int fd, short event)
{
	struct pollfd pfd = { .fd = fd, .events = event };

	return poll(&pfd, 1, 0) == 1 ? pfd.revents : 0;
}

static bool drain_to(struct conn *s, unsigned long long bytes)
{
	long long end = now_ms() + DEADLINE_MS;
	static char sink[1 << 17];

	while (s->out < bytes) {
		ssize_t n = recv(s->rcv, sink, sizeof(sink), MSG_DONTWAIT);

		if (n > 0) {
			s->out += n;
			if (is_tcp(s))
				set_int(s->rcv, IPPROTO_TCP, TCP_QUICKACK, 1);
			continue;
		}
		if (now_ms() > end)
			return false;
		sched_yield();
	}

	return true;
}

/* All bytes are received, and every notification is where it belongs. */
static bool settle(struct conn *s)
{
	long long end = now_ms() + DEADLINE_MS;
	struct tcp_info info;
	socklen_t len = sizeof(info);
	int left;

	if (!drain_to(s, s->in))
		return false;
	/* AF_VSOCK gives credit back a moment later. */
	while (s->domain == AF_VSOCK && !(events(s->snd, POLLOUT) & (POLLOUT | POLLHUP))) {
		if (now_ms() > end)
			return false;
		sched_yield();
	}
	if (!is_tcp(s))
		return true;

	while (!ioctl(s->snd, SIOCOUTQ, &left) && left) {
		if (now_ms() > end)
			return false;
		sched_yield();
	}
	/* Waits for who handles the last acknowledgment. */
	return !getsockopt(s->snd, IPPROTO_TCP, TCP_INFO, &info, &len);
}

static bool send_zc(struct conn *s, int n)
{
	while (n--)
		if (send_plain(s, MSG_ZEROCOPY) != PAYLOAD)
			return false;

	return settle(s);
}

/* Each with a timestamp, which keeps the notifications apart. */
static bool send_stamped(struct conn *s, int n)
{
	while (n--) {
		begin(s, 0);
		put_stamp(s);
		if (send_it(s, MSG_ZEROCOPY) != PAYLOAD || !settle(s))
			return false;
	}

	return true;
}

static bool stamps(struct conn *s)
{
	return s->domain != AF_VSOCK &&
	       !set_int(s->snd, SOL_SOCKET, SO_TIMESTAMPING,
			SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID |
			SOF_TIMESTAMPING_OPT_TSONLY);
}

/* Takes one entry off the error queue. */
static bool take_one(struct conn *s, char **word)
{
	struct sock_extended_err *err = NULL;
	struct cmsghdr *cm;
	char control[512];
	char data[PAYLOAD];
	struct iovec iov = { data, sizeof(data) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};

	if (recvmsg(s->snd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
		return false;

	for (cm = CMSG_FIRSTHDR(&msg); cm; cm = CMSG_NXTHDR(&msg, cm))
		if ((cm->cmsg_level == SOL_IP && cm->cmsg_type == IP_RECVERR) ||
		    (cm->cmsg_level == SOL_IPV6 &&
		     cm->cmsg_type == IPV6_RECVERR) ||
		    (cm->cmsg_level == SOL_VSOCK &&
		     cm->cmsg_type == VSOCK_RECVERR))
			err = (void *)CMSG_DATA(cm);
	if (!err) {
		s->wrong = true;
		return true;
	}

	switch (err->ee_origin) {
	case SO_EE_ORIGIN_ZEROCOPY:
		mark(s, err->ee_info, err->ee_data);
		if (s->zerocopy == !!(err->ee_code & SO_EE_CODE_ZEROCOPY_COPIED))
			s->wrong = true;
		if (word)
			*word += sprintf(*word, "z%u-%u ", err->ee_info,
					 err->ee_data);
		break;
	case SO_EE_ORIGIN_TIMESTAMPING:
		/* TCP counts bytes. */
		if (word)
			*word += sprintf(*word, "t%u ",
					 is_tcp(s) ?
					 (err->ee_data + 1) / PAYLOAD - 1 :
					 err->ee_data);
		break;
	default:
		if (word)
			*word += sprintf(*word, "e%u ", err->ee_errno);
	}

	return true;
}

/* Takes everything off the error queue. */
static const char *queue(struct conn *s)
{
	char *w = s->words;

	*w = 0;
	while (w < s->words + sizeof(s->words) - 64 && take_one(s, &w))
		;
	if (w > s->words)
		w[-1] = 0;

	return s->words;
}

/* ---------- a call in another thread ---------- */

struct call {
	struct conn *s;
	pthread_t thread;
	atomic_int tid;
	struct iovec iov;
	struct msghdr msg, was;
	int flags;
	ssize_t ret;
};

static void *call_thread(void *arg)
{
	struct call *c = arg;

	c->tid = syscall(__NR_gettid);
	c->ret = sendmsg(c->s->snd, &c->msg, c->flags | MSG_NOSIGNAL);
	if (c->ret < 0)
		c->ret = -errno;
	return NULL;
}

static bool call_start(struct call *c, struct conn *s, void *from, size_t len,
		       int flags)
{
	memset(c, 0, sizeof(*c));
	c->s = s;
	c->iov = (struct iovec){ from, len };
	c->msg = message(s, &c->iov);
	c->was = c->msg;
	c->flags = flags;
	return !pthread_create(&c->thread, NULL, call_thread, c);
}

static ssize_t call_end(struct call *c)
{
	pthread_join(c->thread, NULL);
	count(c->s, c->ret, c->flags);
	return c->ret;
}

static bool asleep(struct call *c)
{
	char path[64], line[256] = "", *p;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)c->tid);
	f = c->tid ? fopen(path, "r") : NULL;
	if (!f)
		return false;
	p = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	fclose(f);

	return p && p[2] == 'S';
}

/* Asleep for a while: it waits for room. */
static bool call_blocks(struct call *c)
{
	long long end = now_ms() + DEADLINE_MS;
	int n = 0;

	while (n < 50 && now_ms() < end) {
		nap();
		n = asleep(c) ? n + 1 : 0;
	}

	return n == 50;
}

/*
 * Until not a byte more is taken.  A seqpacket socket takes a part of a message
 * for which there is no room, and says EAGAIN: these fill its buffer exactly,
 * once the other side has told that it is empty.
 */
static bool fill(struct conn *s)
{
	size_t len = s->type == SOCK_SEQPACKET ? 4096 : 4 * PAYLOAD;
	long long end = now_ms() + 2 * DEADLINE_MS;
	int n = 0;

	if (s->type == SOCK_SEQPACKET &&
	    (send(s->rcv, "", 1, 0) != 1 || recv(s->snd, payload, 1, 0) != 1))
		return false;

	/* TCP looks whether there is room again, first after 200 ms. */
	while (n < (is_tcp(s) ? 80 : 20)) {
		ssize_t ret = send(s->snd, payload, len, MSG_DONTWAIT);

		if (now_ms() > end || (ret < 0 && errno != EAGAIN))
			return false;
		n = ret > 0 ? 0 : n + 1;
		if (n)
			usleep(5000);
		else
			count(s, ret, 0);
	}

	return true;
}

/* ---------- a page whose contents come when the test wants ---------- */

struct held {
	int uffd;
	unsigned char *at;
};

static bool held_register(struct held *h, void *at)
{
	struct uffdio_register reg = {
		.range = { (unsigned long)at, page },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	h->at = at;
	return !ioctl(h->uffd, UFFDIO_REGISTER, &reg);
}

/* False: this kernel has no userfaultfd, or not for us. */
static bool held_open(struct held *h)
{
	struct uffdio_api api = { .api = UFFD_API };

	h->uffd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (h->uffd < 0)
		return false;
	h->at = mmap(NULL, page, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return !ioctl(h->uffd, UFFDIO_API, &api) && held_register(h, h->at);
}

/* The address that somebody waits for, as an offset into the page. */
static bool held_wait(struct held *h)
{
	struct pollfd pfd = { .fd = h->uffd, .events = POLLIN };
	struct uffd_msg msg;

	return poll(&pfd, 1, DEADLINE_MS) == 1 &&
	       read(h->uffd, &msg, sizeof(msg)) == sizeof(msg) &&
	       msg.event == UFFD_EVENT_PAGEFAULT &&
	       (msg.arg.pagefault.address & -(unsigned long)page) ==
	       (unsigned long)h->at;
}

static bool held_give(struct held *h, const void *contents)
{
	struct uffdio_copy copy = {
		.dst = (unsigned long)h->at,
		.src = (unsigned long)contents,
		.len = page,
	};

	return !ioctl(h->uffd, UFFDIO_COPY, &copy);
}

/* ---------- the protocols ---------- */

FIXTURE(zc)
{
	struct conn s;
};

FIXTURE_VARIANT(zc)
{
	int domain, type;
};

FIXTURE_VARIANT_ADD(zc, tcp4)
{
	.domain = AF_INET,
	.type = SOCK_STREAM,
};

FIXTURE_VARIANT_ADD(zc, tcp6)
{
	.domain = AF_INET6,
	.type = SOCK_STREAM,
};

FIXTURE_VARIANT_ADD(zc, udp4)
{
	.domain = AF_INET,
	.type = SOCK_DGRAM,
};

FIXTURE_VARIANT_ADD(zc, udp6)
{
	.domain = AF_INET6,
	.type = SOCK_DGRAM,
};

FIXTURE_VARIANT_ADD(zc, vsock_stream)
{
	.domain = AF_VSOCK,
	.type = SOCK_STREAM,
};

FIXTURE_VARIANT_ADD(zc, vsock_seqpacket)
{
	.domain = AF_VSOCK,
	.type = SOCK_SEQPACKET,
};

static void *area(size_t len)
{
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

FIXTURE_SETUP(zc)
{
	struct conn *s = &self->s;
	int fd;

	page = sysconf(_SC_PAGESIZE);
	memset(payload, 'z', sizeof(payload));

	s->domain = variant->domain;
	s->type = variant->type;
	s->snd = -1;
	s->rcv = -1;
	s->zerocopy = s->domain == AF_VSOCK;
	s->area = area(AREA_PAGES * page);
	s->seen = area(MAX_IDS);
	ASSERT_TRUE(s->area && s->seen);
	ASSERT_LE(page, 65536);

	fd = socket(s->domain, s->type, 0);
	if (fd < 0 && errno == EAFNOSUPPORT)
		SKIP(return, "the protocol is not in this kernel");
	ASSERT_LE(0, fd);
	close(fd);
	if (!connect_pair(s)) {
		if (s->domain == AF_VSOCK &&
		    (errno == ENODEV || errno == EADDRNOTAVAIL))
			SKIP(return, "no loopback transport for vsock");
		ASSERT_EQ(0, errno);
	}
	ASSERT_EQ(0, set_int(s->snd, SOL_SOCKET, SO_ZEROCOPY, 1));
}

FIXTURE_TEARDOWN(zc)
{
	struct conn *s = &self->s;

	if (s->snd < 0)
		return;
	if (is_tcp(s) && s->rcv >= 0)
		settle(s);
	else if (!is_udp(s) && s->rcv >= 0)
		drain_to(s, s->in);
	queue(s);
	EXPECT_EQ(s->sent, s->got) {
		TH_LOG("%u ids were used, %u came back", s->sent, s->got);
	}
	EXPECT_FALSE(s->wrong);
	close(s->snd);
	close(s->rcv);
}

/* ---------- what is delivered ---------- */

TEST_F(zc, delivered_with_the_next_send)
{
	struct conn *s = &self->s;

	ASSERT_TRUE(send_zc(s, 3));
	EXPECT_EQ(POLLERR, events(s->snd, 0));
	EXPECT_STREQ("0-2", probe(s, 4));

	/* Only once, and the error queue is empty. */
	EXPECT_EQ(0, events(s->snd, 0));
	EXPECT_EQ(0, get_int(s->snd, SOL_SOCKET, SO_ERROR));
	EXPECT_STREQ("", probe(s, 4));
	EXPECT_STREQ("", queue(s));

	ASSERT_TRUE(send_zc(s, 2));
	EXPECT_STREQ("3-4", probe(s, 1));
}

TEST_F(zc, nothing_to_deliver)
{
	struct conn *s = &self->s;

	EXPECT_STREQ("", probe(s, 4));
	EXPECT_STREQ("untouched", probe(s, 0));
}

TEST_F(zc, every_send_takes_what_is_there)
{
	struct conn *s = &self->s;
	int i;

	for (i = 0; i < 200; i++) {
		ask(s, 2);
		ASSERT_EQ(PAYLOAD, send_it(s, MSG_ZEROCOPY));
		ASSERT_TRUE(some(result(s)));
		if (i % 8 == 7)
			ASSERT_TRUE(drain_to(s, s->in));
	}

	ASSERT_TRUE(settle(s));
	ASSERT_TRUE(some(probe(s, 2)));
	EXPECT_STREQ("", queue(s));
	EXPECT_EQ(200, s->got);
}

TEST_F(zc, ranges_in_order)
{
	struct conn *s = &self->s;

	if (!stamps(s))
		SKIP(return, "no TX timestamps");
	ASSERT_TRUE(send_stamped(s, 5));
	EXPECT_STREQ("0-0 1-1 2-2 3-3 4-4", probe(s, 8));
	EXPECT_STREQ("t0 t1 t2 t3 t4", queue(s));
}

TEST_F(zc, no_more_than_there_is_room)
{
	struct conn *s = &self->s;

	if (!stamps(s))
		SKIP(return, "no TX timestamps");
	ASSERT_TRUE(send_stamped(s, 5));
	EXPECT_STREQ("0-0 1-1", probe(s, 2));
	EXPECT_EQ(POLLERR, events(s->snd, 0));
	EXPECT_STREQ("2-2 3-3", probe(s, 2));
	EXPECT_STREQ("4-4", probe(s, 2));
	EXPECT_STREQ("t0 t1 t2 t3 t4", queue(s));
	EXPECT_EQ(0, events(s->snd, 0));
}

TEST_F(zc, no_room)
{
	struct conn *s = &self->s;

	ASSERT_TRUE(send_zc(s, 3));
	EXPECT_STREQ("untouched", probe(s, 0));
	EXPECT_EQ(POLLERR, events(s->snd, 0));
	EXPECT_STREQ("0-2", probe(s, 1));
}

TEST_F(zc, more_room_than_one_call_fills)
{
	struct conn *s = &self->s;
	int i, n = ZC_NOTIFICATION_MAX;
	char want[2048], *w = want;

	if (!stamps(s))
		SKIP(return, "no TX timestamps");
	ASSERT_TRUE(send_stamped(s, n + 3));
	for (i = 0; i < n; i++)
		w += sprintf(w, "%s%d-%d", i ? " " : "", i, i);
	EXPECT_STREQ(want, probe(s, n + 36));
	sprintf(want, "%d-%d %d-%d %d-%d", n, n, n + 1, n + 1, n + 2, n + 2);
	EXPECT_STREQ(want, probe(s, n + 36));
}

TEST_F(zc, walk_is_bounded)
{
	struct conn *s = &self->s;
	char *w;
	int i;

	if (!stamps(s))
		SKIP(return, "no TX timestamps");
	for (i = 0; i < WALK_MAX; i++) {
		begin(s, 0);
		put_stamp(s);
		ASSERT_EQ(PAYLOAD, send_it(s, 0));
		ASSERT_TRUE(settle(s));
	}
	ASSERT_TRUE(send_zc(s, 1));
	EXPECT_STREQ("0-0", probe(s, 4));

	begin(s, 0);
	put_stamp(s);
	ASSERT_EQ(PAYLOAD, send_it(s, 0));
	ASSERT_TRUE(send_zc(s, 1));
	EXPECT_STREQ("", probe(s, 4));

	/* The other way still finds it; then one entry less is in the way. */
	w = s->words;
	ASSERT_TRUE(take_one(s, &w));
	EXPECT_STREQ("1-1", probe(s, 4));
}

TEST_F(zc, mixed_with_the_error_queue)
{
	struct conn *s = &self->s;

	ASSERT_TRUE(send_zc(s, 2));
	EXPECT_STREQ("z0-1", queue(s));
	EXPECT_STREQ("", probe(s, 4));
	ASSERT_TRUE(send_zc(s, 2));
	EXPECT_STREQ("2-3", probe(s, 4));
	EXPECT_STREQ("", queue(s));
	ASSERT_TRUE(send_zc(s, 1));
	EXPECT_STREQ("z4-4", queue(s));
	ASSERT_TRUE(send_zc(s, 1));
	EXPECT_STREQ("5-5", probe(s, 4));
}

TEST_F(zc, mixed_with_the_error_queue_by_turns)
{
	struct conn *s = &self->s;
	char *w;

	if (!stamps(s))
		SKIP(return, "no TX timestamps");
	ASSERT_TRUE(send_stamped(s, 4));
	EXPECT_STREQ("0-0", probe(s, 1));
	w = s->words;
	ASSERT_TRUE(take_one(s, &w));
	ASSERT_TRUE(take_one(s, &w));
	ASSERT_TRUE(take_one(s, &w));
	EXPECT_STREQ("t0 t1 z1-1 ", s->words);
	EXPECT_STREQ("2-2", probe(s, 1));
	EXPECT_STREQ("t2 t3 z3-3", queue(s));
}

TEST_F(zc, without_msg_zerocopy_in_the_call)
{
	struct conn *s = &self->s;

	ASSERT_TRUE(send_zc(s, 1));
	ask(s, 1);
	EXPECT_EQ(PAYLOAD, send_it(s, 0));
	EXPECT_STREQ("0-0", result(s));
}

TEST_F(zc, without_payload)
{
	struct conn *s = &self->s;

	ASSERT_TRUE(send_zc(s, 1));
	ask(s, 1);
	EXPECT_EQ(0, send_from(s, payload, 0, 0));
	EXPECT_STREQ("0-0", result(s));
	EXPECT_TRUE(!is_udp(s) || !recv(s->rcv, payload, 1, MSG_DONTWAIT));
}

/* ---------- the message ---------- */

/* Refused before anything is sent, taken or written. */
static bool refused(struct conn *s)
{
	bool quiet;

	if (send_it(s, MSG_ZEROCOPY | MSG_DONTWAIT) != -EINVAL)
		return false;
	quiet = !events(s->rcv, POLLIN);
	return quiet && !strcmp(result(s), "untouched");
}

TEST_F(zc, length_that_does_not_match)
{
	static const struct {
		size_t len;
		__u32 room;
	} bad[] = {
		{ 4, 1 }, { 15, 1 }, { 17, 1 }, { 16, 0 }, { 5, 0 },
		{ 28, 1 }, { 16, 2 }, { 27, 2 }, { 29, 2 },
		{ 16, 0xffffffff }, { 4, 0xffffffff },
		/* 12 times this and 4 is 0, 4, 8, 12, 16 in 32 bits. */
		{ 0, 0x55555555 }, { 4, 0x15555555 }, { 8, 0x40000000 },
		{ 12, 0x15555556 }, { 12, 0x6aaaaaab }, { 16, 0x80000001 },
		{ 16, 0x40000001 }, { 16, 0xc0000001 },
	};
	struct conn *s = &self->s;
	size_t i;

	ASSERT_TRUE(send_zc(s, 2));
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		begin(s, 0);
		s->info = put(s, SOL_SOCKET, SCM_ZC_NOTIFICATION, NULL,
			      bad[i].len);
		set_room(s, bad[i].room);
		EXPECT_TRUE(refused(s)) {
			TH_LOG("length %zu, size %u", bad[i].len, bad[i].room);
		}
	}
	/* Shorter than the size word. */
	for (i = 0; i < sizeof(__u32); i++) {
		begin(s, 0);
		s->info = put(s, SOL_SOCKET, SCM_ZC_NOTIFICATION, NULL, i);
		EXPECT_TRUE(refused(s));
	}

	EXPECT_STREQ("0-1", probe(s, 1));
}

TEST_F(zc, length_beyond_the_control_buffer)
{
	struct conn *s = &self->s;

	ASSERT_TRUE(send_zc(s, 2));
	ask(s, 4);
	s->len -= sizeof(struct zc_info_elem);
	EXPECT_TRUE(refused(s));
	EXPECT_STREQ("0-1", probe(s, 1));
}

TEST_F(zc, two_messages)
{
	struct conn *s = &self->s;

	ASSERT_TRUE(send_zc(s, 2));
	begin(s, 0);
	put_zc(s, 2);
	put_zc(s, 2);
	EXPECT_TRUE(refused(s));

	begin(s, 0);
	put_zc(s, 0);
	put_zc(s, 2);
	EXPECT_TRUE(refused(s));

	EXPECT_STREQ("0-1", probe(s, 1));
}

TEST_F(zc, same_type_of_another_level)
{
	struct conn *s = &self->s;
	int level[] = { SOL_IP, SOL_IPV6, SOL_TCP, SOL_VSOCK, 269, -1 };
	size_t i;

	ASSERT_TRUE(send_zc(s, 2));
	for (i = 0; i < ARRAY_SIZE(level); i++) {
		ssize_t ret;

		begin(s, 0);
		s->info = put(s, level[i], SCM_ZC_NOTIFICATION, NULL,
			      info_len(1));
		set_room(s, 1);
		ret = send_it(s, 0);
		/* A protocol may refuse a type of its own level. */
		EXPECT_TRUE(ret == PAYLOAD ||
			    (ret == -EINVAL && level[i] <= SOL_IPV6));
		EXPECT_STREQ("untouched", result(s));
	}

	/* Together with ours. */
	begin(s, 0);
	put(s, 269, SCM_ZC_NOTIFICATION, payload, info_len(1));
	put_zc(s, 1);
	put(s, 269, SCM_ZC_NOTIFICATION, payload, info_len(1));
	EXPECT_EQ(PAYLOAD, send_it(s, 0));
	EXPECT_STREQ("0-1", result(s));
}

TEST_F(zc, not_without_so_zerocopy)
{
	struct conn *s = &self->s;

	ASSERT_EQ(0, set_int(s->snd, SOL_SOCKET, SO_ZEROCOPY, 0));
	ask(s, 2);
	EXPECT_TRUE(refused(s));
	ask(s, 0);
	EXPECT_TRUE(refused(s));

	ASSERT_EQ(0, set_int(s->snd, SOL_SOCKET, SO_ZEROCOPY, 1));
	EXPECT_STREQ("", probe(s, 2));
}

TEST_F(zc, so_zerocopy_switched_off_later)
{
	struct conn *s = &self->s;

	ASSERT_TRUE(send_zc(s, 2));
	EXPECT_STREQ("0-1", probe(s, 2));
	ASSERT_TRUE(send_zc(s, 2));
	ASSERT_EQ(0, set_int(s->snd, SOL_SOCKET, SO_ZEROCOPY, 0));
	ask(s, 2);
	EXPECT_EQ(-EINVAL, send_it(s, 0));
	EXPECT_STREQ("untouched", result(s));
	EXPECT_STREQ("z2-3", queue(s));
}

TEST_F(zc, other_messages_stay)
{
	struct conn *s = &self->s;
	__u32 mark = 7;
	int at;

	for (at = 0; at < 3; at++) {
		struct iovec iov = { payload, PAYLOAD };
		struct msghdr msg, was;
		char want[32];

		ASSERT_TRUE(send_zc(s, 2));
		begin(s, 0);
		if (at == 0)
			put_zc(s, 3);
		put(s, SOL_SOCKET, SO_MARK, &mark, sizeof(mark));
		if (at == 1)
			put_zc(s, 3);
		put(s, 269, 3, payload, 29);
		if (at == 2)
			put_zc(s, 3);
		msg = message(s, &iov);
		was = msg;
		ASSERT_EQ(PAYLOAD, sendmsg(s->snd, &msg, 0));
		sprintf(want, "%d-%d", 4 * at, 4 * at + 1);
		EXPECT_STREQ(want, result(s));
		EXPECT_EQ(0, memcmp(&msg, &was, sizeof(msg)));

		/* The same msghdr once more. */
		count(s, PAYLOAD, 0);
		ASSERT_TRUE(settle(s));
		ASSERT_EQ(PAYLOAD, send(s->snd, payload, PAYLOAD,
					MSG_ZEROCOPY));
		ASSERT_EQ(PAYLOAD, send(s->snd, payload, PAYLOAD,
					MSG_ZEROCOPY));
		count(s, PAYLOAD, MSG_ZEROCOPY);
		count(s, PAYLOAD, MSG_ZEROCOPY);
		ASSERT_TRUE(settle(s));
		set_room(s, 3);
		memcpy(s->was, s->area, AREA_PAGES * page);
		ASSERT_EQ(PAYLOAD, sendmsg(s->snd, &msg, 0));
		count(s, PAYLOAD, 0);
		sprintf(want, "%d-%d", 4 * at + 2, 4 * at + 3);
		EXPECT_STREQ(want, result(s));
		EXPECT_EQ(0, memcmp(&msg, &was, sizeof(msg)));
	}
}

/* In a section that nobody can write. */
static union {
	char buf[256];
	struct cmsghdr align;
} fixed_control;

static const struct iovec fixed_iov = { payload, PAYLOAD };
static const struct msghdr fixed_message = {
	.msg_iov = (struct iovec *)&fixed_iov,
	.msg_iovlen = 1,
	.msg_control = &fixed_control,
	.msg_controllen = CMSG_SPACE(sizeof(struct zc_info) +
				     2 * sizeof(struct zc_info_elem)),
};

TEST_F(zc, constant_msghdr)
{
	struct conn *s = &self->s;
	const struct msghdr *msg = &fixed_message;

	ASSERT_TRUE(send_zc(s, 2));
	ask(s, 2);
	memcpy(&fixed_control, s->buf, s->len);
	ASSERT_EQ(PAYLOAD, sendmsg(s->snd, msg, 0));
	count(s, PAYLOAD, 0);
	memcpy(s->was, s->area, AREA_PAGES * page);
	memcpy(s->buf, &fixed_control, s->len);
	EXPECT_STREQ("0-1", result(s));
}

TEST_F(zc, any_address)
{
	struct conn *s = &self->s;
	size_t at;

	for (at = page - 60; at <= page; at++) {
		char want[32];
		__u32 id = s->sent;

		ASSERT_TRUE(send_zc(s, 2));
		begin(s, at);
		put_zc(s, 2);
		ASSERT_EQ(PAYLOAD, send_it(s, 0));
		sprintf(want, "%u-%u", id, id + 1);
		ASSERT_STREQ(want, result(s)) {
			TH_LOG("control buffer at %zu", at);
		}
	}
}

/* ---------- a control buffer that cannot be written ---------- */

TEST_F(zc, read_only_control_buffer)
{
	struct conn *s = &self->s;

	ASSERT_TRUE(send_zc(s, 2));
	ask(s, 2);
	memcpy(s->was, s->area, AREA_PAGES * page);
	ASSERT_EQ(0, mprotect(s->area, page, PROT_READ));
	EXPECT_EQ(PAYLOAD, send_it(s, 0));
	EXPECT_STREQ("untouched", result(s));
	ASSERT_EQ(0, mprotect(s->area, page, PROT_READ | PROT_WRITE));
	ASSERT_TRUE(settle(s));
	EXPECT_STREQ("0-1", probe(s, 2));
}

TEST_F(zc, control_buffer_that_cannot_be_read)
{
	struct conn *s = &self->s;

	ASSERT_TRUE(send_zc(s, 2));
	ask(s, 2);
	memcpy(s->was, s->area, AREA_PAGES * page);
	s->buf = area(page);
	munmap(s->buf, page);
	EXPECT_EQ(-EFAULT, send_it(s, 0));
	EXPECT_EQ(0, events(s->rcv, POLLIN));
	EXPECT_STREQ("0-1", probe(s, 2));
}

/* The size can be written, the elements cannot. */
TEST_F(zc, read_only_elements)
{
	struct conn *s = &self->s;
	size_t size_at = page - sizeof(__u32);

	ASSERT_TRUE(send_zc(s, 2));
	begin(s, size_at - CMSG_LEN(0));
	put_zc(s, 2);
	ASSERT_EQ(0, mprotect(s->area + page, page, PROT_READ));
	EXPECT_EQ(PAYLOAD, send_it(s, 0));
	EXPECT_STREQ("", result(s));
	ASSERT_EQ(0, mprotect(s->area + page, page, PROT_READ | PROT_WRITE));
	EXPECT_EQ(POLLERR, events(s->snd, 0));
	EXPECT_STREQ("0-1", probe(s, 2));
}

/* All of them go back, also those that were written, and stay in order. */
TEST_F(zc, read_only_later_elements)
{
	struct conn *s = &self->s;
	size_t third_at = page - info_len(2);
	__u32 n;

	if (!stamps(s))
		SKIP(return, "no TX timestamps");
	ASSERT_TRUE(send_stamped(s, 4));
	begin(s, third_at - CMSG_LEN(0));
	put_zc(s, 4);
	ASSERT_EQ(0, mprotect(s->area + page, page, PROT_READ));
	EXPECT_EQ(PAYLOAD, send_it(s, 0));
	memcpy(&n, s->info, sizeof(n));
	EXPECT_EQ(0, n);
	ASSERT_EQ(0, mprotect(s->area + page, page, PROT_READ | PROT_WRITE));
	EXPECT_EQ(POLLERR, events(s->snd, 0));
	EXPECT_EQ(0, get_int(s->snd, SOL_SOCKET, SO_ERROR));
	EXPECT_STREQ("0-0 1-1 2-2", probe(s, 3));
	EXPECT_STREQ("z3-3 t0 t1 t2 t3", queue(s));
}

/* They go to the head: what came meanwhile is behind them. */
TEST_F(zc, put_back_before_what_is_there)
{
	struct conn *s = &self->s;
	size_t second_at = page - info_len(1);

	if (!stamps(s))
		SKIP(return, "no TX timestamps");
	ASSERT_TRUE(send_stamped(s, 3));
	begin(s, second_at - CMSG_LEN(0));
	put_zc(s, 2);
	ASSERT_EQ(0, mprotect(s->area + page, page, PROT_READ));
	EXPECT_EQ(PAYLOAD, send_it(s, 0));
	ASSERT_EQ(0, mprotect(s->area + page, page, PROT_READ | PROT_WRITE));
	EXPECT_STREQ("z0-0 z1-1 t0 t1 t2 z2-2", queue(s));
}

TEST_F(zc, goes_read_only_meanwhile)
{
	struct conn *s = &self->s;
	struct held h;
	struct call c;

	if (!held_open(&h))
		SKIP(return, "no userfaultfd");
	ASSERT_TRUE(send_zc(s, 2));
	ask(s, 2);
	ASSERT_TRUE(call_start(&c, s, h.at, PAYLOAD, 0));
	ASSERT_TRUE(held_wait(&h));
	ASSERT_EQ(0, mprotect(s->area, page, PROT_READ));
	ASSERT_TRUE(held_give(&h, payload));
	EXPECT_EQ(PAYLOAD, call_end(&c));
	EXPECT_STREQ("untouched", result(s));
	ASSERT_EQ(0, mprotect(s->area, page, PROT_READ | PROT_WRITE));
	ASSERT_TRUE(settle(s));
	EXPECT_STREQ("0-1", probe(s, 2));
}

TEST_F(zc, unmapped_meanwhile)
{
	struct conn *s = &self->s;
	struct held h;
	struct call c;

	if (!held_open(&h))
		SKIP(return, "no userfaultfd");
	ASSERT_TRUE(send_zc(s, 2));
	ask(s, 2);
	ASSERT_TRUE(call_start(&c, s, h.at, PAYLOAD, 0));
	ASSERT_TRUE(held_wait(&h));
	munmap(s->area, AREA_PAGES * page);
	ASSERT_TRUE(held_give(&h, payload));
	EXPECT_EQ(PAYLOAD, call_end(&c));
	ASSERT_TRUE(settle(s));
	s->area = area(AREA_PAGES * page);
	EXPECT_STREQ("0-1", probe(s, 2));
}

TEST_F(zc, elements_unmapped_meanwhile)
{
	struct conn *s = &self->s;
	size_t size_at = page - sizeof(__u32);
	struct held h;
	struct call c;
	__u32 n;

	if (!held_open(&h))
		SKIP(return, "no userfaultfd");
	ASSERT_TRUE(send_zc(s, 2));
	begin(s, size_at - CMSG_LEN(0));
	put_zc(s, 2);
	ASSERT_TRUE(call_start(&c, s, h.at, PAYLOAD, 0));
	ASSERT_TRUE(held_wait(&h));
	munmap(s->area + page, page);
	ASSERT_TRUE(held_give(&h, payload));
	EXPECT_EQ(PAYLOAD, call_end(&c));
	memcpy(&n, s->info, sizeof(n));
	EXPECT_EQ(0, n);
	ASSERT_TRUE(settle(s));
	s->area = area(AREA_PAGES * page);
	EXPECT_STREQ("0-1", probe(s, 2));
}

/* The call goes by what it read at its start. */
TEST_F(zc, msghdr_changed_meanwhile)
{
	struct conn *s = &self->s;
	struct msghdr now = { .msg_controllen = 1, .msg_flags = 0x5a5a };
	struct held h;
	struct call c;

	if (!held_open(&h))
		SKIP(return, "no userfaultfd");
	ASSERT_TRUE(send_zc(s, 2));
	ask(s, 2);
	ASSERT_TRUE(call_start(&c, s, h.at, PAYLOAD, 0));
	ASSERT_TRUE(held_wait(&h));
	c.msg = now;
	ASSERT_TRUE(held_give(&h, payload));
	EXPECT_EQ(PAYLOAD, call_end(&c));
	EXPECT_EQ(0, memcmp(&c.msg, &now, sizeof(now)));
	EXPECT_STREQ("0-1", result(s));
}

TEST_F(zc, message_changed_meanwhile)
{
	struct conn *s = &self->s;
	struct held h;
	struct call c;

	if (!held_open(&h))
		SKIP(return, "no userfaultfd");
	ASSERT_TRUE(send_zc(s, 2));
	ask(s, 2);
	ASSERT_TRUE(call_start(&c, s, h.at, PAYLOAD, 0));
	ASSERT_TRUE(held_wait(&h));
	memset(s->buf, 0x5a, CMSG_LEN(0) + sizeof(__u32));
	memset(s->was, 0x5a, CMSG_LEN(0) + sizeof(__u32));
	ASSERT_TRUE(held_give(&h, payload));
	EXPECT_EQ(PAYLOAD, call_end(&c));
	EXPECT_STREQ("0-1", result(s));
}

/* The control page is gone by then, and comes back when it is written. */
TEST_F(zc, control_page_comes_late)
{
	struct conn *s = &self->s;
	struct held h, control;
	struct call c;

	if (!held_open(&h))
		SKIP(return, "no userfaultfd");
	ASSERT_TRUE(send_zc(s, 2));
	ask(s, 2);
	ASSERT_TRUE(call_start(&c, s, h.at, PAYLOAD, 0));
	ASSERT_TRUE(held_wait(&h));
	ASSERT_EQ(0, madvise(s->area, page, MADV_DONTNEED));
	control.uffd = h.uffd;
	ASSERT_TRUE(held_register(&control, s->area));
	ASSERT_TRUE(held_give(&h, payload));
	ASSERT_TRUE(held_wait(&control));
	ASSERT_TRUE(held_give(&control, s->was));
	EXPECT_EQ(PAYLOAD, call_end(&c));
	EXPECT_STREQ("0-1", result(s));
}

/* Meanwhile the other way may take what the message did not. */
TEST_F(zc, elements_page_never_comes)
{
	struct conn *s = &self->s;
	size_t size_at = page - sizeof(__u32);
	struct held h, control;
	struct call c;
	__u32 n;

	if (!held_open(&h))
		SKIP(return, "no userfaultfd");
	ASSERT_TRUE(send_zc(s, 2));
	begin(s, size_at - CMSG_LEN(0));
	put_zc(s, 2);
	ASSERT_TRUE(call_start(&c, s, h.at, PAYLOAD, 0));
	ASSERT_TRUE(held_wait(&h));
	ASSERT_EQ(0, madvise(s->area + page, page, MADV_DONTNEED));
	control.uffd = h.uffd;
	ASSERT_TRUE(held_register(&control, s->area + page));
	ASSERT_TRUE(held_give(&h, payload));
	ASSERT_TRUE(held_wait(&control));

	/* More is queued while the call has the first in its hands. */
	EXPECT_STREQ("", queue(s));
	ASSERT_EQ(PAYLOAD, send(s->snd, payload, PAYLOAD, MSG_ZEROCOPY));
	count(s, PAYLOAD, MSG_ZEROCOPY);
	s->in += PAYLOAD;
	ASSERT_TRUE(settle(s));
	s->in -= PAYLOAD;

	munmap(s->area + page, page);
	close(h.uffd);
	EXPECT_EQ(PAYLOAD, call_end(&c));
	memcpy(&n, s->info, sizeof(n));
	EXPECT_EQ(0, n);
	EXPECT_STREQ("z0-1 z2-2", queue(s));
}

/* ---------- sends that fail ---------- */

TEST_F(zc, payload_that_cannot_be_read)
{
	struct conn *s = &self->s;
	void *hole = area(page);
	ssize_t want;

	munmap(hole, page);
	ASSERT_TRUE(send_zc(s, 2));
	begin(s, 0);
	want = send_from(s, hole, PAYLOAD, 0);
	EXPECT_EQ(s->domain == AF_VSOCK ? -ENOMEM : -EFAULT, want);
	ask(s, 2);
	EXPECT_EQ(want, send_from(s, hole, PAYLOAD, 0));
	EXPECT_STREQ("0-1", result(s));

	ASSERT_TRUE(send_zc(s, 2));
	begin(s, 0);
	want = send_from(s, hole, PAYLOAD, MSG_ZEROCOPY);
	EXPECT_GT(0, want);
	ask(s, 2);
	EXPECT_EQ(want, send_from(s, hole, PAYLOAD, MSG_ZEROCOPY));
	EXPECT_STREQ("2-3", result(s));
}

TEST_F(zc, iovec_that_cannot_be_read)
{
	struct conn *s = &self->s;
	struct iovec *hole = area(page);
	struct msghdr msg;

	munmap(hole, page);
	ASSERT_TRUE(send_zc(s, 2));
	ask(s, 2);
	msg = message(s, hole);
	EXPECT_EQ(-1, sendmsg(s->snd, &msg, 0));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_STREQ("untouched", result(s));
	EXPECT_STREQ("0-1", probe(s, 2));
}

TEST_F(zc, buffer_full_eagain)
{
	struct conn *s = &self->s;

	if (is_udp(s))
		SKIP(return, "never blocks over loopback");
	ASSERT_TRUE(send_zc(s, 2));
	ASSERT_TRUE(fill(s));
	ask(s, 2);
	EXPECT_EQ(-EAGAIN, send_it(s, MSG_DONTWAIT));
	EXPECT_STREQ("0-1", result(s));

	EXPECT_STREQ("", queue(s));
	ask(s, 2);
	EXPECT_EQ(-EAGAIN, send_it(s, MSG_DONTWAIT | MSG_ZEROCOPY));
	EXPECT_STREQ("", result(s));
}

/* What another thread has not finished yet fills the buffer. */
TEST_F(zc, datagram_eagain)
{
	struct conn *s = &self->s;
	struct held h;
	struct call c;

	if (!is_udp(s))
		SKIP(return, "not for this protocol");
	if (!held_open(&h))
		SKIP(return, "no userfaultfd");
	ASSERT_TRUE(send_zc(s, 2));
	ASSERT_EQ(0, set_int(s->snd, SOL_SOCKET, SO_SNDBUF, 1));
	begin(s, 0);
	ASSERT_TRUE(call_start(&c, s, h.at, page, 0));
	ASSERT_TRUE(held_wait(&h));
	ask(s, 2);
	EXPECT_EQ(-EAGAIN, send_it(s, MSG_DONTWAIT));
	EXPECT_STREQ("0-1", result(s));
	ASSERT_TRUE(held_give(&h, payload));
	EXPECT_EQ(page, call_end(&c));
}

TEST_F(zc, shut_down_epipe)
{
	struct conn *s = &self->s;

	ASSERT_TRUE(send_zc(s, 2));
	ASSERT_EQ(0, shutdown(s->snd, SHUT_WR));
	ask(s, 2);
	EXPECT_EQ(-EPIPE, send_it(s, 0));
	EXPECT_STREQ("0-1", result(s));
}

TEST_F(zc, peer_gone)
{
	struct conn *s = &self->s;
	long long end = now_ms() + DEADLINE_MS;
	ssize_t ret;

	if (is_udp(s))
		SKIP(return, "never blocks over loopback");
	ASSERT_TRUE(send_zc(s, 2));
	close(s->rcv);
	s->rcv = -1;
	/* Not the notification: what the peer's end brings. */
	do {
		begin(s, 0);
		ret = send_it(s, MSG_DONTWAIT);
	} while (ret > 0 && now_ms() < end);
	ASSERT_GT(0, ret);
	ask(s, 2);
	EXPECT_GT(0, send_it(s, MSG_DONTWAIT));
	EXPECT_STREQ("0-1", result(s));
}

TEST_F(zc, later_message_is_wrong)
{
	struct conn *s = &self->s;

	if (s->domain == AF_VSOCK)
		SKIP(return, "other messages are ignored");
	ASSERT_TRUE(send_zc(s, 2));
	begin(s, 0);
	put_zc(s, 2);
	put(s, SOL_SOCKET, 0x7777, payload, 4);
	EXPECT_EQ(-EINVAL, send_it(s, 0));
	EXPECT_EQ(0, events(s->rcv, POLLIN));
	EXPECT_STREQ("0-1", result(s));
}

TEST_F(zc, later_message_is_cut_off)
{
	struct conn *s = &self->s;
	const char *r;

	ASSERT_TRUE(send_zc(s, 2));
	begin(s, 0);
	put_zc(s, 2);
	put(s, SOL_SOCKET, SO_MARK, payload, 4);
	s->len -= 8;
	send_it(s, MSG_DONTWAIT);
	/* Whatever becomes of it, nothing is lost. */
	r = result(s);
	if (!strcmp(r, "untouched"))
		r = probe(s, 2);
	EXPECT_STREQ("0-1", r);
}

TEST_F(zc, too_large_emsgsize)
{
	struct conn *s = &self->s;
	void *large = area(1 << 20);

	if (s->type == SOCK_STREAM)
		SKIP(return, "a stream has no limit");
	ASSERT_TRUE(send_zc(s, 2));
	ask(s, 2);
	EXPECT_EQ(-EMSGSIZE, send_from(s, large, 1 << 20, MSG_DONTWAIT));
	EXPECT_STREQ("0-1", result(s));
}

TEST_F(zc, out_of_band_is_an_attempt_too)
{
	struct conn *s = &self->s;

	if (is_tcp(s) || s->domain == AF_INET6)
		SKIP(return, "is sent");
	ASSERT_TRUE(send_zc(s, 2));
	ask(s, 2);
	EXPECT_EQ(-EOPNOTSUPP, send_it(s, MSG_OOB));
	EXPECT_STREQ("0-1", result(s));
}

/* ---------- signals ---------- */

static struct conn *signalled;
static atomic_bool handled;
static atomic_bool touched;

static void on_signal(int sig)
{
	touched = memcmp(signalled->area, signalled->was, AREA_PAGES * page);
	handled = true;
}

static bool signal_blocked_send(struct conn *s, struct call *c, int sa_flags)
{
	struct sigaction sa = {
		.sa_handler = on_signal,
		.sa_flags = sa_flags,
	};
	long long end = now_ms() + DEADLINE_MS;

	handled = false;
	signalled = s;
	sigaction(SIGUSR1, &sa, NULL);
	if (!fill(s))
		return false;
	ask(s, 2);
	if (!call_start(c, s, payload, PAYLOAD, 0) || !call_blocks(c))
		return false;
	if (pthread_kill(c->thread, SIGUSR1))
		return false;
	while (!handled) {
		if (now_ms() > end)
			return false;
		nap();
	}

	return true;
}

TEST_F(zc, signal_restarts_the_call)
{
	struct conn *s = &self->s;
	struct call c;

	if (is_udp(s))
		SKIP(return, "never blocks over loopback");
	ASSERT_TRUE(send_zc(s, 2));
	ASSERT_TRUE(signal_blocked_send(s, &c, SA_RESTART));
	EXPECT_FALSE(touched);
	EXPECT_TRUE(call_blocks(&c));
	EXPECT_EQ(POLLERR, events(s->snd, 0));
	EXPECT_EQ(0, memcmp(s->area, s->was, AREA_PAGES * page));

	/* Once there is room the restarted call takes them. */
	ASSERT_TRUE(drain_to(s, s->in));
	EXPECT_EQ(PAYLOAD, call_end(&c));
	EXPECT_STREQ("0-1", result(s));
}

TEST_F(zc, signal_ends_the_call)
{
	struct conn *s = &self->s;
	struct call c;

	if (is_udp(s))
		SKIP(return, "never blocks over loopback");
	ASSERT_TRUE(send_zc(s, 2));
	ASSERT_TRUE(signal_blocked_send(s, &c, 0));
	EXPECT_EQ(-EINTR, call_end(&c));
	EXPECT_FALSE(touched);
	EXPECT_STREQ("untouched", result(s));
	EXPECT_EQ(POLLERR, events(s->snd, 0));
	ASSERT_TRUE(settle(s));
	EXPECT_STREQ("0-1", probe(s, 2));
}

/* ---------- sendmmsg ---------- */

#define ENTRIES		3

struct batch {
	struct conn *s;
	struct mmsghdr m[ENTRIES];
	struct iovec iov[ENTRIES];
	unsigned char *buf[ENTRIES];
	unsigned char *info[ENTRIES];
};

/* Each entry has its own message, in one control area. */
static void batch_begin(struct batch *b, struct conn *s, __u32 room)
{
	int i;

	memset(b, 0, sizeof(*b));
	b->s = s;
	begin(s, 0);
	for (i = 0; i < ENTRIES; i++) {
		s->buf = s->area + i * 512;
		s->len = 0;
		put_zc(s, room);
		b->info[i] = s->info;
		b->iov[i] = (struct iovec){ payload, PAYLOAD };
		b->m[i].msg_hdr = message(s, &b->iov[i]);
	}
}

static int batch_send(struct batch *b, int flags)
{
	int i, n;

	memcpy(b->s->was, b->s->area, AREA_PAGES * page);
	n = sendmmsg(b->s->snd, b->m, ENTRIES, flags | MSG_NOSIGNAL);
	if (n < 0)
		return -errno;
	for (i = 0; i < n; i++)
		count(b->s, b->m[i].msg_len, flags);

	return n;
}

/* What entry @i got; its bytes count as known then. */
static const char *batch_result(struct batch *b, int i)
{
	struct conn *s = b->s;
	static unsigned char others[AREA_PAGES * 65536];
	const char *r;
	size_t at = i * 512;

	if (!memcmp(s->area + at, s->was + at, 512))
		return "untouched";

	memcpy(others, s->area, AREA_PAGES * page);
	memcpy(s->area, s->was, AREA_PAGES * page);
	memcpy(s->area + at, others + at, 512);
	s->buf = s->area + at;
	s->info = b->info[i];
	r = result(s);
	memcpy(s->area, others, AREA_PAGES * page);

	return r;
}

TEST_F(zc, sendmmsg_each_entry_its_own)
{
	struct conn *s = &self->s;
	struct batch b;

	ASSERT_TRUE(send_zc(s, 2));
	batch_begin(&b, s, 1);
	ASSERT_EQ(ENTRIES, batch_send(&b, 0));
	EXPECT_STREQ("0-1", batch_result(&b, 0));
	EXPECT_STREQ("", batch_result(&b, 1));
	EXPECT_STREQ("", batch_result(&b, 2));
	ASSERT_TRUE(settle(s));

	if (!stamps(s))
		return;
	ASSERT_TRUE(send_stamped(s, 4));
	batch_begin(&b, s, 1);
	ASSERT_EQ(ENTRIES, batch_send(&b, 0));
	EXPECT_STREQ("2-2", batch_result(&b, 0));
	EXPECT_STREQ("3-3", batch_result(&b, 1));
	EXPECT_STREQ("4-4", batch_result(&b, 2));
	EXPECT_TRUE(!!strstr(queue(s), "z5-5"));
}

TEST_F(zc, sendmmsg_later_entry_fails)
{
	struct conn *s = &self->s;
	void *hole = area(page);
	struct batch b;
	int k;

	munmap(hole, page);
	for (k = 1; k < ENTRIES; k++) {
		char want[32];
		__u32 id = s->sent;

		ASSERT_TRUE(send_zc(s, 1));
		batch_begin(&b, s, 1);
		b.iov[k].iov_base = hole;
		/* The first entry takes nothing, so something is left. */
		set_room(s, 1);
		memset(b.info[0], 0, sizeof(__u32));
		b.m[0].msg_hdr.msg_controllen = CMSG_SPACE(info_len(0));
		((struct cmsghdr *)b.m[0].msg_hdr.msg_control)->cmsg_len =
			CMSG_LEN(info_len(0));
		if (k == 2)
			b.m[1].msg_hdr.msg_controllen = 0;
		ASSERT_EQ(k, batch_send(&b, 0));
		EXPECT_STREQ("untouched", batch_result(&b, 0));
		EXPECT_STREQ("untouched", batch_result(&b, 1));
		EXPECT_STREQ("untouched", batch_result(&b, 2));
		ASSERT_TRUE(settle(s));
		sprintf(want, "%u-%u", id, id);
		EXPECT_STREQ(want, probe(s, 2));
	}
}

/* The error of the first entry is the result of the call. */
TEST_F(zc, sendmmsg_first_entry_fails)
{
	struct conn *s = &self->s;
	void *hole = area(page);
	struct batch b;

	munmap(hole, page);
	ASSERT_TRUE(send_zc(s, 2));
	batch_begin(&b, s, 1);
	b.iov[0].iov_base = hole;
	EXPECT_EQ(s->domain == AF_VSOCK ? -ENOMEM : -EFAULT,
		  batch_send(&b, 0));
	EXPECT_STREQ("0-1", batch_result(&b, 0));
	EXPECT_STREQ("untouched", batch_result(&b, 1));
	EXPECT_STREQ("untouched", batch_result(&b, 2));
}

TEST_F(zc, sendmmsg_later_entry_wrong_message)
{
	struct conn *s = &self->s;
	struct batch b;

	ASSERT_TRUE(send_zc(s, 2));
	batch_begin(&b, s, 1);
	memset(b.info[1], 0, sizeof(__u32));
	EXPECT_EQ(1, batch_send(&b, 0));
	EXPECT_STREQ("0-1", batch_result(&b, 0));
	EXPECT_STREQ("untouched", batch_result(&b, 1));
	EXPECT_STREQ("untouched", batch_result(&b, 2));
}

TEST_F(zc, sendmmsg_next_entry_has_no_message)
{
	struct conn *s = &self->s;
	struct batch b;

	if (!stamps(s))
		SKIP(return, "no TX timestamps");
	ASSERT_TRUE(send_stamped(s, 2));
	batch_begin(&b, s, 1);
	b.m[1].msg_hdr.msg_control = NULL;
	b.m[1].msg_hdr.msg_controllen = 0;
	b.m[2].msg_hdr.msg_controllen = 0;
	ASSERT_EQ(ENTRIES, batch_send(&b, 0));
	EXPECT_STREQ("0-0", batch_result(&b, 0));
	EXPECT_STREQ("untouched", batch_result(&b, 1));
	EXPECT_STREQ("untouched", batch_result(&b, 2));
	EXPECT_STREQ("t0 t1 z1-1", queue(s));
}

/* ---------- memory for notifications is used up ---------- */

/* A network of our own, whose limit is ours too. */
static bool own_network(struct conn *s, const char *optmem)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd;

	if (unshare(CLONE_NEWNET))
		return false;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr))
		return false;
	close(fd);
	fd = open("/proc/sys/net/core/optmem_max", O_WRONLY);
	if (fd < 0 || write(fd, optmem, strlen(optmem)) < 0)
		return false;
	close(fd);

	close(s->snd);
	close(s->rcv);
	return connect_pair(s) && !set_int(s->snd, SOL_SOCKET, SO_ZEROCOPY, 1);
}

/* One notification that nobody has read is more than the limit allows. */
static bool stuck(struct conn *s)
{
	ssize_t ret;

	if (!send_zc(s, 1))
		return false;
	begin(s, 0);
	ret = send_it(s, MSG_ZEROCOPY);

	return ret == -ENOBUFS || ret == -ENOMEM;
}

TEST_F(zc, optmem_used_up_small_control)
{
	struct conn *s = &self->s;
	char want[32];
	int i;

	if (!own_network(s, "1400"))
		SKIP(return, "no network namespace");
	for (i = 0; i < 3; i++) {
		ASSERT_TRUE(stuck(s));
		/* One range fits the kernel's own buffer. */
		ask(s, 1);
		EXPECT_GT(0, send_it(s, MSG_ZEROCOPY));
		sprintf(want, "%d-%d", i, i);
		EXPECT_STREQ(want, result(s));
	}
}

TEST_F(zc, optmem_used_up_large_control)
{
	struct conn *s = &self->s;
	char want[32];
	int i;

	if (!own_network(s, "1400"))
		SKIP(return, "no network namespace");
	for (i = 0; i < 3; i++) {
		ASSERT_TRUE(stuck(s));
		ask(s, ZC_NOTIFICATION_MAX);
		EXPECT_EQ(-ENOBUFS, send_it(s, MSG_ZEROCOPY));
		sprintf(want, "%d-%d", i, i);
		EXPECT_STREQ(want, result(s));
	}
}

TEST_F(zc, optmem_used_up_huge_control)
{
	struct conn *s = &self->s;

	if (!own_network(s, "1400"))
		SKIP(return, "no network namespace");
	ASSERT_TRUE(stuck(s));
	ask(s, 2 * page / sizeof(struct zc_info_elem));
	EXPECT_GT(0, send_it(s, MSG_ZEROCOPY));
	EXPECT_STREQ("untouched", result(s));
	EXPECT_STREQ("0-0", probe(s, 1));
}

/* ---------- UDP ---------- */

TEST_F(zc, corked_datagram)
{
	struct conn *s = &self->s;

	if (!is_udp(s))
		SKIP(return, "not for this protocol");
	ASSERT_TRUE(send_zc(s, 2));
	begin(s, 0);
	ASSERT_EQ(PAYLOAD, send_it(s, MSG_MORE));
	ask(s, 2);
	ASSERT_EQ(PAYLOAD, send_it(s, MSG_MORE));
	EXPECT_STREQ("0-1", result(s));
	EXPECT_EQ(0, events(s->rcv, POLLIN));
	ask(s, 2);
	ASSERT_EQ(PAYLOAD, send_it(s, 0));
	EXPECT_STREQ("", result(s));
	EXPECT_EQ(3 * PAYLOAD, recv(s->rcv, payload, sizeof(payload),
				    MSG_DONTWAIT));
}

TEST_F(zc, corked_zerocopy_datagram)
{
	struct conn *s = &self->s;

	if (!is_udp(s))
		SKIP(return, "not for this protocol");
	ask(s, 2);
	ASSERT_EQ(PAYLOAD, send_it(s, MSG_MORE | MSG_ZEROCOPY));
	EXPECT_STREQ("", result(s));
	ask(s, 2);
	ASSERT_EQ(PAYLOAD, send_it(s, MSG_MORE | MSG_ZEROCOPY));
	EXPECT_STREQ("", result(s));
	ask(s, 2);
	ASSERT_EQ(PAYLOAD, send_it(s, MSG_ZEROCOPY));
	EXPECT_STREQ("0-2", result(s));
}

TEST_F(zc, corked_datagram_wrong_message)
{
	struct conn *s = &self->s;

	if (!is_udp(s))
		SKIP(return, "not for this protocol");
	ASSERT_TRUE(send_zc(s, 2));
	begin(s, 0);
	ASSERT_EQ(PAYLOAD, send_it(s, MSG_MORE));
	ask(s, 2);
	set_room(s, 3);
	EXPECT_EQ(-EINVAL, send_it(s, 0));
	EXPECT_STREQ("untouched", result(s));
	ask(s, 2);
	ASSERT_EQ(PAYLOAD, send_it(s, 0));
	EXPECT_STREQ("0-1", result(s));
	EXPECT_EQ(2 * PAYLOAD, recv(s->rcv, payload, sizeof(payload),
				    MSG_DONTWAIT));
}

/* ---------- what else is on the error queue ---------- */

static bool send_to(struct conn *s, const struct sockaddr_storage *to,
		    socklen_t len, int flags)
{
	bool sent = sendto(s->snd, payload, PAYLOAD, flags, (const void *)to,
			   len) == PAYLOAD;

	if (sent && flags & MSG_ZEROCOPY)
		s->sent++;
	return sent;
}

/* Errors of any destination go to the error queue. */
static bool recverr(struct conn *s)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	socklen_t len = sizeof(s->peer);

	if (getpeername(s->snd, (void *)&s->peer, &len) ||
	    connect(s->snd, &none, sizeof(none)))
		return false;
	s->peer_len = len;

	return !(s->domain == AF_INET ?
		 set_int(s->snd, SOL_IP, IP_RECVERR, 1) :
		 set_int(s->snd, SOL_IPV6, IPV6_RECVERR, 1));
}

TEST_F(zc, icmp_errors_stay)
{
	struct conn *s = &self->s;
	struct sockaddr_storage to;
	socklen_t len;

	if (!is_udp(s))
		SKIP(return, "not for this protocol");
	ASSERT_TRUE(recverr(s));
	len = nobody(s->domain, &to);
	ASSERT_NE(0, len);

	/* z0, an error, z1, an error. */
	ASSERT_TRUE(send_to(s, &to, len, MSG_ZEROCOPY));
	EXPECT_EQ(ECONNREFUSED, get_int(s->snd, SOL_SOCKET, SO_ERROR));
	ASSERT_TRUE(send_to(s, &to, len, MSG_ZEROCOPY));
	EXPECT_EQ(ECONNREFUSED, get_int(s->snd, SOL_SOCKET, SO_ERROR));
	EXPECT_EQ(0, get_int(s->snd, SOL_SOCKET, SO_ERROR));

	EXPECT_STREQ("0-0 1-1", probe(s, 4));
	/* An error is the first now, as recvmsg() would say it. */
	EXPECT_EQ(POLLERR, events(s->snd, 0));
	EXPECT_EQ(ECONNREFUSED, get_int(s->snd, SOL_SOCKET, SO_ERROR));
	EXPECT_STREQ("e111 e111", queue(s));
	EXPECT_EQ(0, get_int(s->snd, SOL_SOCKET, SO_ERROR));
	EXPECT_EQ(0, events(s->snd, 0));
}

/* An error that was the first already is not said again. */
TEST_F(zc, icmp_error_before)
{
	struct conn *s = &self->s;
	struct sockaddr_storage to;
	socklen_t len;

	if (!is_udp(s))
		SKIP(return, "not for this protocol");
	ASSERT_TRUE(recverr(s));
	len = nobody(s->domain, &to);
	ASSERT_NE(0, len);

	ASSERT_TRUE(send_to(s, &to, len, 0));
	EXPECT_EQ(ECONNREFUSED, get_int(s->snd, SOL_SOCKET, SO_ERROR));
	ASSERT_TRUE(send_zc(s, 1));
	EXPECT_STREQ("0-0", probe(s, 4));
	EXPECT_EQ(0, get_int(s->snd, SOL_SOCKET, SO_ERROR));
	EXPECT_STREQ("e111", queue(s));
}

/* The send reports the pending error, as it does without the message. */
TEST_F(zc, pending_error_is_reported)
{
	struct conn *s = &self->s;
	struct sockaddr_storage to;
	socklen_t len;

	if (!is_udp(s))
		SKIP(return, "not for this protocol");
	ASSERT_TRUE(recverr(s));
	len = nobody(s->domain, &to);
	ASSERT_NE(0, len);

	ASSERT_TRUE(send_to(s, &to, len, MSG_ZEROCOPY));
	ask(s, 4);
	EXPECT_EQ(-ECONNREFUSED, send_it(s, 0));
	EXPECT_STREQ("0-0", result(s));
	EXPECT_STREQ("e111", queue(s));
}

/* Nothing is taken: nothing is said of what stays. */
TEST_F(zc, put_back_before_an_icmp_error)
{
	struct conn *s = &self->s;
	struct sockaddr_storage to;
	socklen_t len;

	if (!is_udp(s))
		SKIP(return, "not for this protocol");
	ASSERT_TRUE(recverr(s));
	len = nobody(s->domain, &to);
	ASSERT_NE(0, len);

	ASSERT_TRUE(send_to(s, &to, len, MSG_ZEROCOPY));
	EXPECT_EQ(ECONNREFUSED, get_int(s->snd, SOL_SOCKET, SO_ERROR));
	begin(s, page - sizeof(__u32) - CMSG_LEN(0));
	put_zc(s, 2);
	ASSERT_EQ(0, mprotect(s->area + page, page, PROT_READ));
	EXPECT_EQ(PAYLOAD, send_it(s, 0));
	EXPECT_STREQ("", result(s));
	ASSERT_EQ(0, mprotect(s->area + page, page, PROT_READ | PROT_WRITE));
	EXPECT_EQ(0, get_int(s->snd, SOL_SOCKET, SO_ERROR));
	EXPECT_EQ(POLLERR, events(s->snd, 0));
	EXPECT_STREQ("z0-0 e111", queue(s));
}

TEST_F(zc, timestamps_stay)
{
	struct conn *s = &self->s;
	int i;

	if (!stamps(s))
		SKIP(return, "no TX timestamps");
	/* t0 t1 z0-0 t2 t3 z1-1 */
	for (i = 0; i < 2; i++) {
		begin(s, 0);
		put_stamp(s);
		ASSERT_EQ(PAYLOAD, send_it(s, 0));
		ASSERT_TRUE(send_stamped(s, 1));
	}
	EXPECT_STREQ("0-0 1-1", probe(s, 4));
	EXPECT_EQ(POLLERR, events(s->snd, 0));
	EXPECT_STREQ("t0 t1 t2 t3", queue(s));
}

/* One send that asks for both. */
TEST_F(zc, timestamp_and_notification_in_one_call)
{
	struct conn *s = &self->s;

	if (!stamps(s))
		SKIP(return, "no TX timestamps");
	ASSERT_TRUE(send_zc(s, 1));
	begin(s, 0);
	put_stamp(s);
	put_zc(s, 4);
	ASSERT_EQ(PAYLOAD, send_it(s, 0));
	EXPECT_STREQ("0-0", result(s));
	ASSERT_TRUE(settle(s));
	EXPECT_STREQ(is_tcp(s) ? "t1" : "t0", queue(s));
}

/* ---------- two threads ---------- */

struct reaper {
	struct conn *s;
	bool from_queue;
	atomic_bool end;
	pthread_t thread;
};

static void *reap(void *arg)
{
	struct reaper *r = arg;
	static char sink[1 << 17];

	while (!r->end) {
		struct pollfd pfd = { .fd = r->s->snd };

		if (!r->from_queue)
			pfd = (struct pollfd){ r->s->rcv, POLLIN };
		if (poll(&pfd, 1, 10) != 1)
			continue;
		if (r->from_queue)
			take_one(r->s, NULL);
		else
			recv(r->s->rcv, sink, sizeof(sink), MSG_DONTWAIT);
	}

	return NULL;
}

/*
 * One sends and takes, one takes from the error queue, one receives.  Every
 * eighth call cannot write what it takes, which goes back.
 */
TEST_F_TIMEOUT(zc, two_threads, 600)
{
	struct conn *s = &self->s;
	const char *env = getenv("ZC_NOTIFICATION_SENDS");
	__u32 i, n = 0, sends = env && *env ? strtoul(env, NULL, 0) : 100000;
	struct reaper queue_reaper = { .s = s, .from_queue = true };
	struct reaper receiver = { .s = s };
	unsigned char *one, *bad;
	unsigned long taken = 0;
	long long end;

	ASSERT_GT(MAX_IDS, sends);
	stamps(s);
	begin(s, 0);
	bad = s->area + page - sizeof(__u32);
	ASSERT_EQ(0, mprotect(s->area + page, page, PROT_READ));
	ASSERT_EQ(0, pthread_create(&queue_reaper.thread, NULL, reap,
				    &queue_reaper));
	ASSERT_EQ(0, pthread_create(&receiver.thread, NULL, reap, &receiver));

	for (i = 0; i < sends;) {
		bool fails = i % 8 == 7;
		struct iovec iov = { payload, 100 };
		struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
		__u32 k;
		ssize_t ret;

		s->buf = fails ? bad - CMSG_LEN(0) : s->area;
		s->len = 0;
		if (!fails && i % 5 == 0)
			put_stamp(s);
		one = s->buf + s->len;
		if (fails) {
			/* The elements lie in the page that is read only. */
			struct cmsghdr h = {
				.cmsg_len = CMSG_LEN(info_len(4)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_ZC_NOTIFICATION,
			};

			memcpy(one, &h, sizeof(h));
			s->info = bad;
			s->len = CMSG_SPACE(info_len(4));
			set_room(s, 4);
		} else {
			put_zc(s, 4);
		}
		msg.msg_control = s->buf;
		msg.msg_controllen = s->len;
		ret = sendmsg(s->snd, &msg, MSG_ZEROCOPY | MSG_NOSIGNAL);
		if (ret < 0 && errno != ENOBUFS && errno != ENOMEM)
			break;
		if (ret > 0) {
			s->sent++;
			i++;
		}
		memcpy(&n, s->info, sizeof(n));
		if (n > 4 || (fails && n))
			break;
		for (k = 0; k < n; k++) {
			struct zc_info_elem e = element(s, k);

			mark(s, e.lo, e.hi);
			taken++;
		}
		if (s->wrong)
			break;
	}
	EXPECT_EQ(sends, i) {
		TH_LOG("errno %d, size %u", errno, n);
	}

	/* What is left comes by the error queue. */
	end = now_ms() + 2 * DEADLINE_MS;
	while (s->got < s->sent && now_ms() < end)
		nap();
	queue_reaper.end = true;
	receiver.end = true;
	pthread_join(queue_reaper.thread, NULL);
	pthread_join(receiver.thread, NULL);
	EXPECT_LT(0, taken);
	EXPECT_EQ(sends, s->got);
	/* The receiver has not counted. */
	s->in = s->out;
}

/* ---------- io_uring ---------- */

enum how { INLINE, ASYNC, POLL_FIRST, SQPOLL, HOWS };

static const char *const how_name[] = {
	"inline", "IOSQE_ASYNC", "POLL_FIRST", "SQPOLL"
};

static const int opcodes[] = { IORING_OP_SENDMSG, IORING_OP_SENDMSG_ZC };

static int ring_open(struct io_uring *ring, enum how how)
{
	struct io_uring_params p = {
		.flags = how == SQPOLL ? IORING_SETUP_SQPOLL : 0,
		.sq_thread_idle = 1,
	};

	return io_uring_queue_init_params(8, ring, &p);
}

static bool ring_start(struct io_uring *ring, struct conn *s, int opcode,
		       enum how how, const struct msghdr *msg, int flags)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	if (!sqe)
		return false;
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = opcode;
	sqe->fd = s->snd;
	sqe->addr = (unsigned long)msg;
	sqe->len = 1;
	sqe->msg_flags = flags;
	sqe->flags = how == ASYNC ? IOSQE_ASYNC : 0;
	sqe->ioprio = how == POLL_FIRST ? IORING_RECVSEND_POLL_FIRST : 0;

	if (io_uring_submit(ring) != 1)
		return false;
	/* The kernel's own thread may sleep. */
	return how != SQPOLL || io_uring_enter(ring->ring_fd, 1, 0,
					       IORING_ENTER_SQ_WAKEUP,
					       NULL) >= 0;
}

/* The result; SENDMSG_ZC says later that it is done with the payload. */
static int ring_end(struct io_uring *ring, struct conn *s, int flags)
{
	struct io_uring_cqe *cqe;
	bool more, notif;
	int ret = -EBUSY;

	do {
		struct pollfd pfd = { .fd = ring->ring_fd, .events = POLLIN };

		if (poll(&pfd, 1, DEADLINE_MS) != 1 ||
		    io_uring_wait_cqe(ring, &cqe))
			return -ETIME;
		notif = cqe->flags & IORING_CQE_F_NOTIF;
		more = cqe->flags & IORING_CQE_F_MORE;
		if (!notif) {
			ret = cqe->res;
			count(s, ret, flags);
			/* The notification waits for the receiver. */
			if (ret > 0)
				settle(s);
		}
		io_uring_cqe_seen(ring);
	} while (more);

	return ret;
}

static bool ring_pending(struct io_uring *ring)
{
	struct pollfd pfd = { .fd = ring->ring_fd, .events = POLLIN };

	return poll(&pfd, 1, 100) == 0;
}

static int ring_send(struct io_uring *ring, struct conn *s, int opcode,
		     enum how how, int flags)
{
	struct iovec iov = { payload, PAYLOAD };
	struct msghdr msg = message(s, &iov);

	if (!ring_start(ring, s, opcode, how, &msg, flags))
		return -ECANCELED;

	return ring_end(ring, s, flags);
}

TEST_F(zc, io_uring_delivers_once)
{
	struct conn *s = &self->s;
	int o, how;

	for (how = 0; how < HOWS; how++) {
		struct io_uring ring;

		ASSERT_EQ(0, ring_open(&ring, how));
		for (o = 0; o < 2; o++) {
			char want[32];
			__u32 id = s->sent;

			ASSERT_TRUE(send_zc(s, 2));
			ask(s, 2);
			ASSERT_EQ(PAYLOAD, ring_send(&ring, s, opcodes[o],
						     how, 0)) {
				TH_LOG("opcode %d, %s", opcodes[o],
				       how_name[how]);
			}
			sprintf(want, "%u-%u", id, id + 1);
			EXPECT_STREQ(want, result(s)) {
				TH_LOG("opcode %d, %s", opcodes[o],
				       how_name[how]);
			}
			ask(s, 2);
			ASSERT_EQ(PAYLOAD, ring_send(&ring, s, opcodes[o],
						     how, 0));
			EXPECT_STREQ("", result(s));
		}
		io_uring_queue_exit(&ring);
	}
}

/* Notifications of the socket's own, not of SENDMSG_ZC. */
TEST_F(zc, io_uring_with_msg_zerocopy)
{
	struct conn *s = &self->s;
	struct io_uring ring;
	char want[32];
	int i;

	ASSERT_EQ(0, ring_open(&ring, INLINE));
	for (i = 0; i < 10; i++) {
		ask(s, 4);
		ASSERT_EQ(PAYLOAD, ring_send(&ring, s, IORING_OP_SENDMSG,
					     INLINE, MSG_ZEROCOPY));
		ASSERT_TRUE(some(result(s)));
	}
	ASSERT_TRUE(settle(s));
	sprintf(want, "%u-9", s->got);
	EXPECT_TRUE(s->got == 10 || !strcmp(want, probe(s, 4)));
	EXPECT_EQ(10, s->got);
}

TEST_F(zc, io_uring_refuses)
{
	struct conn *s = &self->s;
	struct io_uring ring;
	int o;

	ASSERT_EQ(0, ring_open(&ring, INLINE));
	ASSERT_TRUE(send_zc(s, 2));
	for (o = 0; o < 2; o++) {
		ask(s, 2);
		set_room(s, 3);
		EXPECT_EQ(-EINVAL, ring_send(&ring, s, opcodes[o], INLINE, 0));
		EXPECT_STREQ("untouched", result(s));
		EXPECT_EQ(0, events(s->rcv, POLLIN));
	}
	ASSERT_EQ(0, set_int(s->snd, SOL_SOCKET, SO_ZEROCOPY, 0));
	for (o = 0; o < 2; o++) {
		ask(s, 2);
		EXPECT_EQ(-EINVAL, ring_send(&ring, s, opcodes[o], INLINE, 0));
		EXPECT_STREQ("untouched", result(s));
	}
	ASSERT_EQ(0, set_int(s->snd, SOL_SOCKET, SO_ZEROCOPY, 1));
	ask(s, 2);
	EXPECT_EQ(PAYLOAD, ring_send(&ring, s, IORING_OP_SENDMSG, INLINE, 0));
	EXPECT_STREQ("0-1", result(s));
}

TEST_F(zc, io_uring_next_request_has_no_message)
{
	struct conn *s = &self->s;
	struct io_uring ring;
	int o;

	for (o = 0; o < 2; o++) {
		char want[32];
		__u32 id = s->sent;

		ASSERT_EQ(0, ring_open(&ring, INLINE));
		ASSERT_TRUE(send_zc(s, 2));
		ask(s, 2);
		ASSERT_EQ(PAYLOAD, ring_send(&ring, s, opcodes[o], INLINE, 0));
		sprintf(want, "%u-%u", id, id + 1);
		EXPECT_STREQ(want, result(s));

		/* Its memory is used again; the first one's message is not. */
		ASSERT_TRUE(send_zc(s, 2));
		ask(s, 2);
		s->len = 0;
		ASSERT_EQ(PAYLOAD, ring_send(&ring, s, opcodes[o], INLINE, 0));
		EXPECT_STREQ("untouched", result(s));
		sprintf(want, "z%u-%u", id + 2, id + 3);
		EXPECT_STREQ(want, queue(s));
		io_uring_queue_exit(&ring);
	}
}

TEST_F(zc, io_uring_read_only_control_buffer)
{
	struct conn *s = &self->s;
	struct io_uring ring;
	int o;

	ASSERT_EQ(0, ring_open(&ring, INLINE));
	ASSERT_TRUE(send_zc(s, 2));
	for (o = 0; o < 2; o++) {
		ask(s, 2);
		ASSERT_EQ(0, mprotect(s->area, page, PROT_READ));
		EXPECT_EQ(PAYLOAD, ring_send(&ring, s, opcodes[o], INLINE, 0));
		EXPECT_STREQ("untouched", result(s));
		ASSERT_EQ(0, mprotect(s->area, page, PROT_READ | PROT_WRITE));
	}
	EXPECT_STREQ("0-1", probe(s, 2));
}

TEST_F(zc, io_uring_send_fails)
{
	struct conn *s = &self->s;
	struct io_uring ring;

	ASSERT_EQ(0, ring_open(&ring, INLINE));
	ASSERT_TRUE(send_zc(s, 2));
	ASSERT_EQ(0, shutdown(s->snd, SHUT_WR));
	ask(s, 2);
	EXPECT_EQ(-EPIPE, ring_send(&ring, s, IORING_OP_SENDMSG, INLINE, 0));
	EXPECT_STREQ("0-1", result(s));
}

/* Final, but it reaches nobody that could tell it from one more retry. */
TEST_F(zc, io_uring_eagain_takes_nothing)
{
	struct conn *s = &self->s;
	struct io_uring ring;
	int o;

	if (is_udp(s))
		SKIP(return, "never blocks over loopback");
	ASSERT_EQ(0, ring_open(&ring, INLINE));
	ASSERT_TRUE(send_zc(s, 2));
	ASSERT_TRUE(fill(s));
	for (o = 0; o < 2; o++) {
		ask(s, 2);
		EXPECT_EQ(-EAGAIN, ring_send(&ring, s, opcodes[o], INLINE,
					     MSG_DONTWAIT));
		EXPECT_STREQ("untouched", result(s));
	}
	ASSERT_TRUE(settle(s));
	EXPECT_STREQ("0-1", probe(s, 2));
}

TEST_F(zc, io_uring_waits_for_room)
{
	struct conn *s = &self->s;
	int o, how;

	if (is_udp(s))
		SKIP(return, "never blocks over loopback");
	for (how = 0; how < HOWS; how++) {
		struct io_uring ring;

		ASSERT_EQ(0, ring_open(&ring, how));
		for (o = 0; o < 2; o++) {
			struct iovec iov = { payload, PAYLOAD };
			struct msghdr msg;
			__u32 id = s->sent;
			char want[32];

			ASSERT_TRUE(send_zc(s, 2));
			ASSERT_TRUE(fill(s));
			ask(s, 2);
			msg = message(s, &iov);
			ASSERT_TRUE(ring_start(&ring, s, opcodes[o], how, &msg,
					       0));
			EXPECT_TRUE(ring_pending(&ring));
			EXPECT_EQ(0, memcmp(s->area, s->was,
					    AREA_PAGES * page)) {
				TH_LOG("opcode %d, %s", opcodes[o],
				       how_name[how]);
			}
			EXPECT_EQ(POLLERR, events(s->snd, 0));
			ASSERT_TRUE(drain_to(s, s->in));
			EXPECT_EQ(PAYLOAD, ring_end(&ring, s, 0));
			sprintf(want, "%u-%u", id, id + 1);
			EXPECT_STREQ(want, result(s)) {
				TH_LOG("opcode %d, %s", opcodes[o],
				       how_name[how]);
			}
		}
		io_uring_queue_exit(&ring);
	}
}

/* A part is sent and told of; the rest goes without the message. */
TEST_F(zc, io_uring_partial_send)
{
	struct conn *s = &self->s;
	size_t len = 1 << 22;
	void *large = area(len);
	int o, how;

	if (is_udp(s))
		SKIP(return, "never blocks over loopback");
	if (s->type != SOCK_STREAM)
		SKIP(return, "sends messages as a whole");
	for (how = 0; how < SQPOLL; how++) {
		struct io_uring ring;

		ASSERT_EQ(0, ring_open(&ring, how));
		for (o = 0; o < 2; o++) {
			struct iovec iov = { large, len };
			struct msghdr msg;
			__u32 id = s->sent;
			char want[32];

			/* In a worker all of it is one call that waits. */
			bool parts = how != ASYNC;

			ASSERT_TRUE(send_zc(s, 2));
			ask(s, 2);
			msg = message(s, &iov);
			ASSERT_TRUE(ring_start(&ring, s, opcodes[o], how, &msg,
					       MSG_WAITALL));
			EXPECT_TRUE(ring_pending(&ring));
			sprintf(want, "%u-%u", id, id + 1);
			if (parts) {
				EXPECT_STREQ(want, result(s)) {
					TH_LOG("opcode %d, %s", opcodes[o],
					       how_name[how]);
				}
				memcpy(s->was, s->area, AREA_PAGES * page);
			}
			s->in += len;
			ASSERT_TRUE(drain_to(s, s->in));
			s->in -= len;
			EXPECT_EQ(len, ring_end(&ring, s, 0));
			EXPECT_STREQ(parts ? "untouched" : want, result(s)) {
				TH_LOG("opcode %d, %s", opcodes[o],
				       how_name[how]);
			}
			EXPECT_STREQ("", queue(s));
		}
		io_uring_queue_exit(&ring);
	}
}

/* ---------- sockets that have no such notifications ---------- */

/* That the same message is taken elsewhere. */
static bool taken_elsewhere(void)
{
	static struct conn s = { .domain = AF_INET, .type = SOCK_DGRAM };
	bool taken;

	page = sysconf(_SC_PAGESIZE);
	s.area = area(AREA_PAGES * page);
	if (!connect_pair(&s) || set_int(s.snd, SOL_SOCKET, SO_ZEROCOPY, 1))
		return false;
	taken = !strcmp(probe(&s, 1), "");
	close(s.snd);
	close(s.rcv);

	return taken;
}

static int send_refused(int fd, const void *to, socklen_t len, bool with)
{
	struct conn s = { .snd = fd };
	struct iovec iov = { payload, PAYLOAD };
	struct msghdr msg;

	s.area = area(AREA_PAGES * page);
	ask(&s, 1);
	msg = message(&s, &iov);
	msg.msg_name = (void *)to;
	msg.msg_namelen = len;
	if (!with)
		msg.msg_controllen = 0;
	if (sendmsg(fd, &msg, MSG_DONTWAIT) < 0)
		return strcmp(result(&s), "untouched") ? 0 : -errno;

	return PAYLOAD;
}

static int raw_socket(int domain, struct sockaddr_storage *addr,
		      socklen_t *len)
{
	*len = local_address(domain, addr);
	return socket(domain, SOCK_RAW, 253);
}

TEST(refused_by_raw4)
{
	struct sockaddr_storage addr;
	socklen_t len;
	int fd = raw_socket(AF_INET, &addr, &len);

	if (fd < 0)
		SKIP(return, "no raw socket");
	ASSERT_TRUE(taken_elsewhere());
	EXPECT_EQ(-1, set_int(fd, SOL_SOCKET, SO_ZEROCOPY, 1));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(PAYLOAD, send_refused(fd, &addr, len, false));
	EXPECT_EQ(-EINVAL, send_refused(fd, &addr, len, true));
}

TEST(refused_by_raw6)
{
	struct sockaddr_storage addr;
	socklen_t len;
	int fd = raw_socket(AF_INET6, &addr, &len);

	if (fd < 0)
		SKIP(return, "no raw socket");
	ASSERT_TRUE(taken_elsewhere());
	EXPECT_EQ(-1, set_int(fd, SOL_SOCKET, SO_ZEROCOPY, 1));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(PAYLOAD, send_refused(fd, &addr, len, false));
	EXPECT_EQ(-EINVAL, send_refused(fd, &addr, len, true));
}

TEST(refused_by_packet)
{
	struct sockaddr_ll addr = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_802_EX1),
		.sll_ifindex = if_nametoindex("lo"),
		.sll_halen = ETH_ALEN,
	};
	int fd = socket(AF_PACKET, SOCK_DGRAM, 0);

	if (fd < 0)
		SKIP(return, "no packet socket");
	ASSERT_TRUE(taken_elsewhere());
	EXPECT_EQ(-1, set_int(fd, SOL_SOCKET, SO_ZEROCOPY, 1));
	EXPECT_EQ(PAYLOAD, send_refused(fd, &addr, sizeof(addr), false));
	EXPECT_EQ(-EINVAL, send_refused(fd, &addr, sizeof(addr), true));
}

TEST(refused_by_unix)
{
	int type[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };
	int i, fd[2];

	ASSERT_TRUE(taken_elsewhere());
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, socketpair(AF_UNIX, type[i], 0, fd));
		EXPECT_EQ(-1, set_int(fd[0], SOL_SOCKET, SO_ZEROCOPY, 1));
		EXPECT_EQ(PAYLOAD, send_refused(fd[0], NULL, 0, false));
		EXPECT_EQ(-EINVAL, send_refused(fd[0], NULL, 0, true));
		close(fd[0]);
		close(fd[1]);
	}
}

/* RDS has its own notifications, and ignores levels that it does not know. */
TEST(refused_by_rds)
{
	struct sockaddr_storage addr;
	socklen_t len = local_address(AF_INET, &addr);
	int fd = socket(PF_RDS, SOCK_SEQPACKET, 0);

	if (fd < 0)
		SKIP(return, "RDS is not in this kernel");
	((struct sockaddr_in *)&addr)->sin_port = htons(4000);
	ASSERT_TRUE(taken_elsewhere());
	ASSERT_EQ(0, set_int(fd, SOL_SOCKET, SO_ZEROCOPY, 1));
	ASSERT_EQ(0, bind(fd, (void *)&addr, len));
	EXPECT_EQ(PAYLOAD, send_refused(fd, &addr, len, false));
	EXPECT_EQ(-EINVAL, send_refused(fd, &addr, len, true));
}

/* One number, one meaning: a second case would not compile. */
TEST(number_is_free)
{
	int n = SCM_ZC_NOTIFICATION;

	switch (n) {
	case SO_RCVPRIORITY:
	case SO_PASSRIGHTS:
	case SO_INQ:
	case SO_DEVMEM_LINEAR:
	case SO_DEVMEM_DMABUF:
	case SO_DEVMEM_DONTNEED:
	case SCM_TS_OPT_ID:
	case SO_PASSPIDFD:
	case SO_PEERPIDFD:
	case SO_RCVMARK:
	case SO_TXREHASH:
	case SO_RESERVE_MEM:
	case SO_NETNS_COOKIE:
	case SO_BUF_LOCK:
	case SO_PREFER_BUSY_POLL:
	case SO_BUSY_POLL_BUDGET:
	case SO_TXTIME:
	case SO_ZEROCOPY:
		n = 0;
		break;
	case SCM_ZC_NOTIFICATION:
		break;
	}
	EXPECT_NE(0, n);
	EXPECT_EQ(12, sizeof(struct zc_info_elem));
	EXPECT_EQ(4, sizeof(struct zc_info));
	EXPECT_TRUE(taken_elsewhere());
}

TEST_HARNESS_MAIN
