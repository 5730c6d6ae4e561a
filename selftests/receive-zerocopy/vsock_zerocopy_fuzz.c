// SPDX-License-Identifier: GPL-2.0-only
/*
 * A fuzzer for the zero-copy receive of AF_VSOCK (SO_VM_SOCKETS_ZEROCOPY).
 *
 * A session is one connection between two processes.  One sends packets of
 * random sizes from all kinds of memory, the other receives them by random
 * operations: by mapping in both forms, by recv(), it peeks, polls, unmaps,
 * moves and forks meanwhile, and makes calls that must fail.  Every byte has
 * its place in a stream of pseudo-random numbers and is compared with it, as
 * it arrives and, where it stays mapped, again later.  What lies behind the
 * data must be zero, the headers must give the boundaries of the messages.
 *
 * What is sent and which operations are done follows from the seed; what they
 * find also depends on how the two processes are scheduled.  A failure names
 * the seed, the operation and the command that runs the session again.
 *
 * Where the kernel has fault injection, allocations and user copies of the
 * mapping calls are made to fail, one after the other: a call that fails has
 * taken nothing.  recv() is left alone, as a message whose copy fails is lost
 * with any receive.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/errqueue.h>
#include <linux/sockios.h>
#include <linux/types.h>
#include <linux/virtio_vsock.h>
#include <linux/vm_sockets.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include "kselftest.h"

#ifndef AF_VSOCK
#define AF_VSOCK	40
#endif
#ifndef SOL_VSOCK
#define SOL_VSOCK	287
#endif
#ifndef VSOCK_RECVERR
#define VSOCK_RECVERR	1
#endif
#ifndef SO_INQ
#define SO_INQ		84
#define SCM_INQ		SO_INQ
#endif

#define PROGRAM		"vsock_zerocopy_fuzz"
#define KIB		1024U
#define STALL_S		30	/* without a byte received */
#define SEEDS		8	/* tests of each type */
#define SEED_STEP	1000000	/* from one test to the next */

#define MAX_SIZE	(300 * KIB)	/* of a packet */
#define MAX_CALL	(320 * KIB)	/* of a recv() */
#define MAX_BUFFER	(16 * 1024 * KIB)
#define MAX_PACKETS	4096
#define MAX_TOTAL	(6 * 1024 * KIB)
#define HEADERS		512	/* that the first page has room for */
#define ARG_SIZE	sizeof(struct vm_sockets_zerocopy)

/* There is no credit for the overhead of a message: see vsock_credit. */
#define PER_MESSAGE	1536
#define ACK_EVERY	32	/* messages */

static size_t page_size;

/* ---------- random numbers ---------- */

static __u64 mix(__u64 z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static __u64 rnd(__u64 *state)
{
	return mix(*state += 0x9e3779b97f4a7c15ULL);
}

static __u32 below(__u64 *state, __u32 n)
{
	return rnd(state) % n;
}

static bool one_in(__u64 *state, __u32 n)
{
	return below(state, n) == 0;
}

/* From 1 to @max, each power of two as likely as the next. */
static __u32 rnd_size(__u64 *state, __u32 max)
{
	unsigned int bits = 31 - __builtin_clz(max);
	__u32 size = 1 + below(state, 1U << below(state, bits + 1));

	return size < max ? size : max;
}

/* A state of its own for each operation: one does not depend on another. */
static __u64 rnd_for(__u64 seed, __u64 what, __u64 number)
{
	return mix(mix(seed + (what << 56)) + number);
}

enum {
	FOR_SESSION = 1,
	FOR_SIZES,
	FOR_SENDER,
	FOR_RECEIVER,
	FOR_RACER,
	FOR_DATA,
};

/* ---------- what the processes share ---------- */

enum {
	MAPPED,
	COPIED,
	RECEIVED,
	PEEKED,
	DISCARDED,
	VANISHED,
	REREAD,
	CALLS,
	REFUSED,
	FAULTS,
	SURVIVED,
	SEND_FAULTS,
	RACES,
	ZEROCOPY,
	FORKS,
	COUNTS,
};

static const char * const count_names[COUNTS] = {
	[MAPPED]	= "bytes mapped",
	[COPIED]	= "bytes copied into a mapping",
	[RECEIVED]	= "bytes received",
	[PEEKED]	= "bytes peeked",
	[DISCARDED]	= "bytes cut off",
	[VANISHED]	= "bytes unmapped at once by another thread",
	[REREAD]	= "bytes looked at again",
	[CALLS]		= "mapping calls",
	[REFUSED]	= "calls that had to fail",
	[FAULTS]	= "faults injected",
	[SURVIVED]	= "of them without an error",
	[SEND_FAULTS]	= "faults injected into send()",
	[RACES]		= "calls against another thread",
	[ZEROCOPY]	= "packets sent by MSG_ZEROCOPY",
	[FORKS]		= "forks",
};

#define LAST	12

struct side {
	pid_t pid;
	atomic_uint op;
	const char *does;
	const char *last[LAST];
	atomic_bool done;
	char error[400];
};

struct shared {
	struct side snd, rcv;
	atomic_uint begun;	/* bytes that the sender has begun to send */
	atomic_uint taken;	/* bytes that the receiver has taken */
	atomic_bool early;	/* the receiver does not want the rest */
	atomic_int queued;	/* SIOCINQ, when asked by SIGUSR1 */
	__u64 count[COUNTS];
	__u64 ops;
};

static struct shared *shared;
static struct side *me;

/* ---------- options ---------- */

static struct {
	bool recv_only;
	bool trace;
	int faults;		/* 1 must be there, 0 where they are, -1 none */
	const char *only;
	int type;
	long long seed;
	unsigned long rounds;
	unsigned long seconds;
	bool sender, receiver;	/* the other end runs elsewhere */
	__u32 cid, port;
} opt = { .rounds = 2, .seed = -1, .port = 4567 };

static bool have_faults;

/* ---------- a session ---------- */

struct session {
	int type;
	__u64 seed;
	__u64 data;		/* of the bytes */
	__u64 buffer;		/* of both ends */
	unsigned int packets;
	__u64 total;
	__u64 end[MAX_PACKETS];	/* where each packet ends in the stream */
	bool receiver_connects;
	int opt_in;		/* 0 before the connection is, 1 then, 2 later */
	unsigned int early;	/* operation that ends it, 0: none */
	int snd, rcv;
};

static struct session ses;

static bool is_stream(void)
{
	return ses.type == SOCK_STREAM;
}

static bool ends_record(unsigned int packet)
{
	return !is_stream() && mix(ses.data ^ packet) % 3 == 0;
}

static __noreturn __printf(1, 2) void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(me->error, sizeof(me->error), fmt, ap);
	va_end(ap);
	_exit(1);
}

static void does(const char *what)
{
	me->does = what;
}

static void begin(unsigned int op, const char *name)
{
	me->op = op;
	me->last[op % LAST] = name;
	does(name);
	if (opt.trace)
		fprintf(stderr, "# %s %u %s at %llu\n",
			me == &shared->snd ? "sender" : "receiver", op, name,
			(unsigned long long)(me == &shared->snd ?
					     shared->begun : shared->taken));
}

static void add(int what, __u64 n)
{
	shared->count[what] += n;
}

/* ---------- the stream of numbers ---------- */

static __u64 word_at(__u64 pos)
{
	return mix(ses.data + (pos / 8 + 1) * 0x9e3779b97f4a7c15ULL);
}

static unsigned char byte_at(__u64 pos)
{
	return word_at(pos) >> (8 * (pos % 8));
}

static void fill(unsigned char *to, __u64 pos, size_t len)
{
	__u64 word;

	for (; len && pos % 8; len--)
		*to++ = byte_at(pos++);
	for (; len >= 8; len -= 8, pos += 8, to += 8) {
		word = word_at(pos);
		memcpy(to, &word, 8);
	}
	for (; len; len--)
		*to++ = byte_at(pos++);
}

/* Where in the stream do these bytes belong?  -1 if nowhere near. */
static long long place_of(const unsigned char *data, size_t len, __u64 pos)
{
	__u64 from = pos > 1024 * KIB ? pos - 1024 * KIB : 0, i;
	unsigned char want[16];

	if (len < sizeof(want))
		return -1;
	for (i = from; i < pos + 1024 * KIB; i++) {
		if (byte_at(i) != data[0] || byte_at(i + 1) != data[1])
			continue;
		fill(want, i, sizeof(want));
		if (!memcmp(want, data, sizeof(want)))
			return i;
	}
	return -1;
}

static void compare(const unsigned char *data, __u64 pos, size_t len,
		    const char *what)
{
	__u64 p = pos, word, want;
	size_t i = 0, k;

	while (i < len) {
		if (p % 8 == 0 && len - i >= 8) {
			memcpy(&word, data + i, 8);
			want = word_at(p);
			if (word == want) {
				i += 8;
				p += 8;
				continue;
			}
		}
		if (data[i] != byte_at(p)) {
			for (k = i; k < len && !data[k]; k++)
				;
			die("%s: byte %zu of %zu is %#x, not %#x at %llu; %zu zeros, data of %lld",
			    what, i, len, data[i], byte_at(p),
			    (unsigned long long)p, k - i,
			    place_of(data + i, len - i, p));
		}
		i++;
		p++;
	}
}

static void all_zero(const unsigned char *data, size_t len, const char *what)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (data[i])
			die("%s: byte %zu of %zu is %#x, data of %lld", what,
			    i, len, data[i],
			    place_of(data + i, len - i, shared->taken));
}

/* ---------- sockets ---------- */

static int queued_bytes(int fd)
{
	int val = -1;

	if (ioctl(fd, SIOCINQ, &val))
		die("SIOCINQ: %s", strerror(errno));
	return val;
}

static int opt_in(int fd, int on)
{
	return setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY, &on,
			  sizeof(on));
}

static int set_buffer(int fd, __u64 size)
{
	return setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_SIZE, &size,
			  sizeof(size));
}

static int new_socket(void)
{
	int fd = socket(AF_VSOCK, ses.type, 0);
	__u64 max = MAX_BUFFER;

	if (fd < 0)
		return -1;
	if (setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_MAX_SIZE, &max,
		       sizeof(max)) || set_buffer(fd, ses.buffer)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Both ends here: the sizes are set before they meet, so that both know. */
static int connect_here(void)
{
	struct sockaddr_vm addr = {
		.svm_family = AF_VSOCK,
		.svm_cid = VMADDR_CID_LOCAL,
		.svm_port = VMADDR_PORT_ANY,
	};
	bool before = ses.opt_in == 0 && !opt.recv_only;
	int listener = new_socket(), other = new_socket(), accepted;
	socklen_t len = sizeof(addr);

	if (listener < 0 || other < 0)
		return -1;
	if (before && opt_in(ses.receiver_connects ? other : listener, 1))
		return -1;
	if (bind(listener, (struct sockaddr *)&addr, sizeof(addr)) ||
	    getsockname(listener, (struct sockaddr *)&addr, &len) ||
	    listen(listener, 1) ||
	    connect(other, (struct sockaddr *)&addr, sizeof(addr)))
		return -1;
	accepted = accept(listener, NULL, NULL);
	if (accepted < 0)
		return -1;
	close(listener);
	ses.snd = ses.receiver_connects ? accepted : other;
	ses.rcv = ses.receiver_connects ? other : accepted;
	if (ses.opt_in == 1 && !opt.recv_only && opt_in(ses.rcv, 1))
		return -1;
	return 0;
}

/* One end: the receiver listens.  The other may come up later. */
static int connect_elsewhere(void)
{
	struct sockaddr_vm addr = {
		.svm_family = AF_VSOCK,
		.svm_cid = opt.sender ? opt.cid : VMADDR_CID_ANY,
		.svm_port = opt.port,
	};
	int fd = new_socket(), i;

	if (fd < 0)
		return -1;
	if (opt.sender) {
		for (i = 0; i < 1000; i++) {
			if (!connect(fd, (struct sockaddr *)&addr,
				     sizeof(addr))) {
				ses.snd = fd;
				return 0;
			}
			close(fd);
			usleep(20000);
			fd = new_socket();
		}
		return -1;
	}
	if (ses.opt_in == 0 && !opt.recv_only && opt_in(fd, 1))
		return -1;
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, 1))
		return -1;
	ses.rcv = accept(fd, NULL, NULL);
	close(fd);
	if (ses.rcv < 0)
		return -1;
	return ses.opt_in == 1 && !opt.recv_only ? opt_in(ses.rcv, 1) : 0;
}

/* ---------- faults ---------- */

static int fail_nth = -1;

static void faults_open(void)
{
	if (!have_faults)
		return;
	fail_nth = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	if (fail_nth < 0)
		die("fail-nth: %s", strerror(errno));
}

/* The nth allocation or copy from now on fails, of this thread alone. */
static void fault_arm(unsigned int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", n);

	if (pwrite(fail_nth, text, len, 0) != len)
		die("fail-nth: %s", strerror(errno));
}

/* Did a fault happen since?  Reading the answer copies as well, and may fail. */
static bool fault_happened(void)
{
	char text[16] = {};
	bool happened = pread(fail_nth, text, sizeof(text) - 1, 0) > 0 &&
			!atoi(text);
	int i;

	for (i = 0; i < 3; i++)
		if (pwrite(fail_nth, "0", 1, 0) == 1)
			return happened;
	die("fail-nth: %s", strerror(errno));
}

/* ---------- the packets ---------- */

enum { MIXED, SMALL, PAGES, LARGE, PROFILES };

static __u32 packet_size(__u64 *r, int profile, __u32 max)
{
	/* In per cent: nothing, small, pages and a byte, any, 64 KiB, more */
	static const unsigned char weights[PROFILES][6] = {
		[MIXED] = {  3, 30, 30, 20,  7, 10 },
		[SMALL] = {  5, 85,  5,  5,  0,  0 },
		[PAGES] = {  1,  4, 70, 10, 10,  5 },
		[LARGE] = {  0,  5, 10, 15, 30, 40 },
	};
	int kind = 0, percent = below(r, 100);
	__u32 size = 0;

	while (percent >= weights[profile][kind])
		percent -= weights[profile][kind++];
	switch (kind) {
	case 1:
		size = 1 + below(r, 128);
		break;
	case 2:
		size = page_size * rnd_size(r, 16) + below(r, 3) - 1;
		break;
	case 3:
		size = rnd_size(r, 64 * KIB);
		break;
	case 4:
		size = 64 * KIB;
		break;
	case 5:
		size = 64 * KIB + below(r, max - 64 * KIB);
		break;
	}
	return size < max ? size : max;
}

static void plan(int type, __u64 seed)
{
	__u64 r = rnd_for(seed, FOR_SESSION, type), sizes;
	__u32 max, size;
	int profile;

	ses.type = type;
	ses.seed = seed;
	ses.data = rnd_for(seed, FOR_DATA, type);
	ses.buffer = (256 * KIB) << below(&r, 4);
	/* A message of this size fits, whatever the receiver has left. */
	max = ses.buffer / 4 * 3 < MAX_SIZE ? ses.buffer / 4 * 3 : MAX_SIZE;
	ses.receiver_connects = one_in(&r, 2);
	ses.opt_in = below(&r, 3);
	ses.early = one_in(&r, 6) ? 1 + below(&r, 400) : 0;
	profile = below(&r, PROFILES);
	ses.total = 0;
	for (ses.packets = 0; ses.packets < MAX_PACKETS; ses.packets++) {
		sizes = rnd_for(seed, FOR_SIZES, ses.packets);
		if (one_in(&sizes, 200))
			profile = below(&sizes, PROFILES);
		size = packet_size(&sizes, profile, max);
		if (ses.total + size > MAX_TOTAL)
			break;
		ses.total += size;
		ses.end[ses.packets] = ses.total;
	}
}

/* ---------- the sender ---------- */

#define SLOTS	16
#define MARGIN	8192	/* around what is sent */
#define IDS	16384

struct slot {
	unsigned char *mem;
	size_t size;
	int memfd;
	__u64 end;		/* of what it holds in the stream, 0: free */
};

static struct sender {
	struct slot slot[SLOTS];
	unsigned int first, used;	/* a ring */
	bool zerocopy;
	bool several;		/* packets may be on their way */
	bool unsure;		/* which of them a notification means */
	bool told[IDS];		/* notifications that came */
	__u32 ids;
	unsigned int messages, acks;
	unsigned char *plain;
} snd;

static void slot_dirty(struct slot *slot)
{
	memset(slot->mem, 0xa5, slot->size);
}

static void sender_setup(void)
{
	int one = 1, i;

	snd.plain = malloc(MAX_SIZE);
	for (i = 0; i < SLOTS; i++) {
		struct slot *slot = &snd.slot[i];

		slot->size = MAX_SIZE + MARGIN;
		slot->memfd = i % 2 ? memfd_create(PROGRAM, 0) : -1;
		if (i % 2 && (slot->memfd < 0 ||
			      ftruncate(slot->memfd, slot->size)))
			die("memfd: %s", strerror(errno));
		slot->mem = mmap(NULL, slot->size, PROT_READ | PROT_WRITE,
				 i % 2 ? MAP_SHARED :
					 MAP_PRIVATE | MAP_ANONYMOUS,
				 slot->memfd, 0);
		if (slot->mem == MAP_FAILED || !snd.plain)
			die("no memory");
	}
	snd.zerocopy = !setsockopt(ses.snd, SOL_SOCKET, SO_ZEROCOPY, &one,
				   sizeof(one));
}

static void slot_free(__u64 *r)
{
	struct slot *slot = &snd.slot[snd.first];

	/* The buffer is the sender's again: nobody may see this. */
	slot->end = 0;
	if (slot->memfd >= 0 && one_in(r, 4)) {
		if (ftruncate(slot->memfd, 0) ||
		    ftruncate(slot->memfd, slot->size))
			die("ftruncate: %s", strerror(errno));
	}
	slot_dirty(slot);
	snd.first = (snd.first + 1) % SLOTS;
	snd.used--;
}

/*
 * A packet that is sent without a copy has one number.  One that is sent in
 * parts, as credit comes, is copied and has several; they may come in another
 * order, as a small part is freed when it is merged.  So either one packet is
 * on its way and its notification gives the buffer back, or several are, and
 * their arrival does.
 */
static void notifications(__u64 *r)
{
	__u64 taken = shared->taken;
	struct sock_extended_err *err;
	struct cmsghdr *cmsg;
	char control[128];
	__u32 id;

	for (;;) {
		struct msghdr msg = {
			.msg_control = control,
			.msg_controllen = sizeof(control),
		};

		if (recvmsg(ses.snd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			break;
		cmsg = CMSG_FIRSTHDR(&msg);
		if (!cmsg || cmsg->cmsg_level != SOL_VSOCK ||
		    cmsg->cmsg_type != VSOCK_RECVERR)
			die("a message in the error queue that is no notification");
		err = (struct sock_extended_err *)CMSG_DATA(cmsg);
		if (err->ee_origin != SO_EE_ORIGIN_ZEROCOPY || err->ee_errno)
			die("notification: origin %u, error %u",
			    err->ee_origin, err->ee_errno);
		for (id = err->ee_info; id <= err->ee_data && id < IDS; id++) {
			if (snd.told[id])
				die("notification %u came twice", id);
			snd.told[id] = true;
			if (snd.ids <= id)
				snd.ids = id + 1;
		}
		if (err->ee_code & SO_EE_CODE_ZEROCOPY_COPIED)
			snd.unsure = true;
		if (snd.unsure)
			continue;
		if (snd.used != 1 || err->ee_data != err->ee_info)
			die("told of %u to %u, for %u packets",
			    err->ee_info, err->ee_data, snd.used);
		slot_free(r);
	}
	if (!snd.unsure || opt.sender)
		return;
	while (snd.used && taken >= snd.slot[snd.first].end)
		slot_free(r);
	if (!snd.used)
		snd.unsure = false;
}

static bool may_leave(void)
{
	return shared->early || (opt.sender && ses.early);
}

static bool peer_left(int err)
{
	return may_leave() && (err == EPIPE || err == ECONNRESET ||
			       err == ENOTCONN);
}

/* No more messages ahead than the receiver is sure to have room for. */
static bool wait_for_acks(void)
{
	unsigned int ahead = ses.buffer / PER_MESSAGE;
	unsigned char buf[64];
	ssize_t ret;

	does("wait for messages to be read");
	while (snd.messages > snd.acks * ACK_EVERY + ahead) {
		ret = recv(ses.snd, buf, 1, 0);
		if (ret <= 0 && may_leave())
			return false;
		if (ret <= 0)
			die("acknowledgment: %zd, %s", ret,
			    ret ? strerror(errno) : "end of the connection");
		snd.acks += ret;
	}
	return true;
}

/* Sends as much as it can, while its allocations and copies fail in turn. */
static ssize_t send_with_faults(const unsigned char *from, size_t len,
				int flags)
{
	bool happened = true;
	unsigned int n;
	ssize_t ret;

	for (n = 1; n < 500; n++) {
		fault_arm(n);
		ret = send(ses.snd, from, len, flags);
		if (ret < 0)
			ret = -errno;
		happened = fault_happened();
		if (happened)
			add(SEND_FAULTS, 1);
		if (!happened || (ret != -ENOMEM && ret != -EFAULT))
			break;
	}
	if (ret < 0) {
		errno = -ret;
		ret = -1;
	}
	return ret;
}

static bool send_packet(unsigned int i, __u64 *r)
{
	__u64 pos = i ? ses.end[i - 1] : 0;
	size_t len = ses.end[i] - pos, done = 0;
	unsigned char *from = snd.plain;
	int flags = MSG_NOSIGNAL | (ends_record(i) ? MSG_EOR : 0);
	struct slot *slot = NULL;
	ssize_t ret;

	notifications(r);
	/* A large message may be sent in more parts than there is room for
	 * notifications, and then it cannot be finished.
	 */
	if (snd.zerocopy && len && one_in(r, len < 1024 ? 50 : 2) &&
	    (is_stream() || len <= 64 * KIB) &&
	    (!snd.used || (snd.several && snd.used < SLOTS))) {
		if (!snd.used)
			snd.several = !opt.sender && one_in(r, 2);
		if (snd.several)
			snd.unsure = true;
		slot = &snd.slot[(snd.first + snd.used) % SLOTS];
		slot_dirty(slot);
		from = slot->mem + (one_in(r, 2) ? 0 : below(r, MARGIN));
		flags |= MSG_ZEROCOPY;
	}
	fill(from, pos, len);
	does(slot ? "send by MSG_ZEROCOPY" : "send");
	do {
		size_t part = len - done;

		if (is_stream() && !slot && part && one_in(r, 8))
			part = 1 + below(r, part);
		shared->begun = pos + done + part;
		if (fail_nth >= 0 && is_stream() && !slot && one_in(r, 16))
			ret = send_with_faults(from + done, part, flags);
		else
			ret = send(ses.snd, from + done, part, flags);
		if (ret < 0 && slot && !done && is_stream() &&
		    (errno == ENOBUFS || errno == ENOMEM)) {
			/* No room for one more notification. */
			memcpy(snd.plain, from, len);
			from = snd.plain;
			slot = NULL;
			snd.unsure = true;
			flags &= ~MSG_ZEROCOPY;
			continue;
		}
		if (ret < 0 && peer_left(errno))
			return false;
		if (ret < 0 || (ret == 0 && len) ||
		    (!is_stream() && (size_t)ret != len))
			die("send of %zu bytes: %zd, %s", part, ret,
			    strerror(errno));
		done += ret;
		if (slot && (size_t)ret != len)
			snd.unsure = true;
	} while (done < len);
	if (slot) {
		slot->end = pos + len;
		snd.used++;
		add(ZEROCOPY, 1);
	}
	if (len)
		snd.messages++;
	return true;
}

/* Once everything has arrived there was a notification for each number. */
static void all_told(__u64 *r)
{
	__u32 id;

	if (opt.sender || shared->taken < ses.total)
		return;
	notifications(r);
	for (id = 0; id < snd.ids; id++)
		if (!snd.told[id])
			die("notification %u of %u never came", id, snd.ids);
	if (snd.used)
		die("%u buffers never came back", snd.used);
}

static void sender_main(void)
{
	unsigned int i;
	__u64 r;

	if (ses.rcv > 0)
		close(ses.rcv);
	sender_setup();
	faults_open();
	for (i = 0; i < ses.packets; i++) {
		begin(i, "send");
		r = rnd_for(ses.seed, FOR_SENDER, i);
		if (one_in(&r, 16))
			usleep(below(&r, 2000));
		else if (one_in(&r, 8))
			sched_yield();
		if (!is_stream() && !wait_for_acks())
			break;
		if (!send_packet(i, &r))
			break;
	}
	me->done = true;
	begin(i, "end");
	r = rnd_for(ses.seed, FOR_SENDER, i);
	/* What the receiver has not read yet stays there. */
	if (one_in(&r, 2)) {
		shutdown(ses.snd, one_in(&r, 2) ? SHUT_WR : SHUT_RDWR);
		does("wait for the other end");
		while (recv(ses.snd, snd.plain, 64, 0) > 0)
			;
		all_told(&r);
	}
	close(ses.snd);
	_exit(0);
}

/* ---------- the receiver: what it has mapped ---------- */

#define AREAS		6
#define MAX_PAGES	560	/* more than there are headers */
#define KEPT		2048
#define RACE_PAGES	64

struct area {
	unsigned char *mem;	/* NULL: none */
	size_t pages;
};

/* Data that stays where it was mapped. */
struct kept {
	unsigned char *mem;
	size_t len;
	__u64 pos;
};

static struct receiver {
	int fd;
	__u64 pos;		/* bytes taken from the stream */
	unsigned int packet;	/* the first that is not taken to its end */
	unsigned int acked;	/* messages */
	bool opted;
	bool ended;		/* nothing more is to be sent to the sender */
	int lowat;
	__u64 buffer;
	int epoll;
	int pipe[2];
	int held[2];		/* a pipe that holds a page */
	size_t held_len;
	__u64 held_pos;
	unsigned char *buf;
	unsigned char *arg;	/* a page that can be written, then nothing */
	unsigned char *fixed;	/* a page that can only be read, then nothing */
	struct area area[AREAS];
	struct kept kept[KEPT];
	unsigned int nkept;
	pid_t child;
	int other, foreign_fd;	/* a socket that is not ours */
	unsigned char *foreign;	/* its mapping */
} rcv;

static sigjmp_buf on_fault;
static atomic_int may_fault;

static void fault_handler(int sig, siginfo_t *info, void *context)
{
	if (may_fault)
		siglongjmp(on_fault, 1);
	snprintf(me->error, sizeof(me->error), "%s at %p",
		 sig == SIGBUS ? "SIGBUS: a page is missing" : "SIGSEGV",
		 info->si_addr);
	_exit(1);
}

static void state_handler(int sig)
{
	int val = -1;

	ioctl(rcv.fd, SIOCINQ, &val);
	shared->queued = val;
}

/* Copies as many bytes as are there. */
static size_t copy_there(unsigned char *to, const unsigned char *from,
			 size_t len)
{
	static atomic_size_t done;
	size_t part;

	done = 0;
	if (!sigsetjmp(on_fault, 1)) {
		may_fault = 1;
		while (done < len) {
			part = len - done < page_size ? len - done : page_size;
			memcpy(to + done, from + done, part);
			done += part;
		}
	}
	may_fault = 0;
	return done;
}

/* Is there no page?  A system call says so without a signal. */
static bool is_hole(const unsigned char *mem)
{
	ssize_t ret = write(rcv.pipe[1], mem, 1);
	char c;

	if (ret == 1 && read(rcv.pipe[0], &c, 1) != 1)
		die("pipe: %s", strerror(errno));
	return ret < 0 && errno == EFAULT;
}

static void must_be_hole(const unsigned char *mem, const char *what)
{
	if (!is_hole(mem))
		die("%s: there is a page at %p", what, mem);
}

static void reread(const struct kept *k, const char *what)
{
	compare(k->mem, k->pos, k->len, what);
	if (k->len % page_size)
		all_zero(k->mem + k->len,
			 page_size - k->len % page_size,
			 "behind data that was mapped earlier");
	add(REREAD, k->len);
}

/* Pages there are about to go: look at what they hold a last time. */
static void forget(unsigned char *mem, size_t pages, bool look)
{
	unsigned char *end = mem + pages * page_size;
	unsigned int i, n = 0;

	for (i = 0; i < rcv.nkept; i++) {
		struct kept *k = &rcv.kept[i];

		if (k->mem + k->len <= mem || k->mem >= end) {
			rcv.kept[n++] = *k;
			continue;
		}
		if (look)
			reread(k, "data that was mapped earlier");
	}
	rcv.nkept = n;
}

static void keep(unsigned char *mem, size_t len, __u64 pos)
{
	if (!len)
		return;
	if (rcv.nkept == KEPT)
		memmove(rcv.kept, rcv.kept + 1,
			--rcv.nkept * sizeof(rcv.kept[0]));
	rcv.kept[rcv.nkept++] = (struct kept){ mem, len, pos };
}

static void *map_socket(size_t pages)
{
	void *mem = mmap(NULL, pages * page_size, PROT_READ, MAP_SHARED, rcv.fd,
			 0);

	if (mem == MAP_FAILED)
		die("mmap of %zu pages: %s", pages, strerror(errno));
	return mem;
}

static void *map_socket_with_faults(size_t pages)
{
	bool happened = true;
	unsigned int n;
	int err = 0;
	void *mem;

	for (n = 1; happened; n++) {
		fault_arm(n);
		mem = mmap(NULL, pages * page_size, PROT_READ, MAP_SHARED,
			   rcv.fd, 0);
		if (mem == MAP_FAILED)
			err = errno;
		happened = fault_happened();
		if (happened)
			add(FAULTS, 1);
		if (mem != MAP_FAILED)
			return mem;
		if (!happened || err != ENOMEM)
			die("mmap with fault %u: %s", n, strerror(err));
	}
	return NULL;
}

static size_t random_pages(__u64 *r)
{
	if (one_in(r, 10))
		return MAX_PAGES;
	return 2 + rnd_size(r, 128);
}

/* A random mapping; there is one at least. */
static struct area *some_area(__u64 *r)
{
	unsigned int i = below(r, AREAS), n;

	for (n = 0; n < AREAS; n++, i++)
		if (rcv.area[i % AREAS].mem)
			return &rcv.area[i % AREAS];
	i = below(r, AREAS);
	rcv.area[i].pages = random_pages(r);
	rcv.area[i].mem = map_socket(rcv.area[i].pages);
	return &rcv.area[i];
}

static void unmap(unsigned char *mem, size_t pages)
{
	if (munmap(mem, pages * page_size))
		die("munmap: %s", strerror(errno));
}

/* ---------- the receiver: what it takes ---------- */

/* Packets end where the sender said; empty ones are never sent by Linux. */
static __u64 end_of_packet(void)
{
	while (rcv.packet < ses.packets && ses.end[rcv.packet] <= rcv.pos)
		rcv.packet++;
	if (rcv.packet == ses.packets)
		die("received more than was sent");
	return ses.end[rcv.packet];
}

/* Has a part of the next message been taken already? */
static bool within_message(void)
{
	__u64 start;

	if (is_stream() || rcv.pos == ses.total)
		return false;
	end_of_packet();
	start = rcv.packet ? ses.end[rcv.packet - 1] : 0;
	return rcv.pos > start;
}

static void acknowledge(void)
{
	unsigned char acks[64] = {};
	unsigned int messages = 0, n;

	if (is_stream() || rcv.ended)
		return;
	/* How many have been taken in whole: the empty ones are not sent. */
	for (n = rcv.acked; n < ses.packets && ses.end[n] <= rcv.pos; n++) {
		if (ses.end[n] == (n ? ses.end[n - 1] : 0))
			continue;
		if (++messages % ACK_EVERY == 0)
			rcv.acked = n + 1;
	}
	n = messages / ACK_EVERY;
	if (n > sizeof(acks))
		die("%u acknowledgments at once", n);
	while (n && send(rcv.fd, acks, 1, MSG_NOSIGNAL) == 1)
		n--;
	/* A sender that has sent everything may be gone. */
	if (n && errno != EPIPE && errno != ENOTCONN && errno != ECONNRESET)
		die("send: %s", strerror(errno));
	rcv.ended = n;
}

static void take(__u64 bytes)
{
	rcv.pos += bytes;
	if (rcv.pos > ses.total)
		die("received %llu bytes, %llu were sent",
		    (unsigned long long)rcv.pos,
		    (unsigned long long)ses.total);
	if (!opt.receiver && rcv.pos > shared->begun)
		die("received %llu bytes, %llu have been sent by now",
		    (unsigned long long)rcv.pos,
		    (unsigned long long)shared->begun);
	shared->taken = rcv.pos;
}

/* One header of @mem, whose data lies at @data. */
static void take_piece(const struct virtio_vsock_usr_hdr *hdr, unsigned int n,
		       unsigned char *data, bool compare_it)
{
	__u32 flags = hdr->flags & ~VIRTIO_VSOCK_USR_COPIED, want = 0;
	__u32 len = hdr->len;
	__u64 end;

	if (!is_stream()) {
		end = end_of_packet();
		if (rcv.pos + len > end)
			die("header %u: %u bytes, packet %u ends after %llu",
			    n, len, rcv.packet,
			    (unsigned long long)(end - rcv.pos));
		if (rcv.pos + len == end) {
			want = VIRTIO_VSOCK_SEQ_EOM;
			if (ends_record(rcv.packet))
				want |= VIRTIO_VSOCK_SEQ_EOR;
		}
	}
	if (flags != want)
		die("header %u: flags %#x, expected are %#x (packet %u, %u bytes, %llu missing)",
		    n, flags, want, rcv.packet, len,
		    is_stream() ? 0 : (unsigned long long)(end - rcv.pos));
	if (!len)
		die("header %u: no bytes, flags %#x", n, hdr->flags);
	if (compare_it) {
		compare(data, rcv.pos, len,
			hdr->flags & VIRTIO_VSOCK_USR_COPIED ?
			"data that was copied" : "data that was mapped");
		if (len % page_size)
			all_zero(data + len, page_size - len % page_size,
				 "behind the data");
	}
	add(hdr->flags & VIRTIO_VSOCK_USR_COPIED ? COPIED : MAPPED, len);
	take(len);
}

struct result {
	unsigned int headers;
	__u64 bytes, copied;
	size_t pages;		/* with the first */
};

/* What a call that succeeded left in the mapping. */
static struct result take_mapped(unsigned char *mem, size_t pages)
{
	const struct virtio_vsock_usr_hdr *hdr = (void *)mem;
	struct result res = { .pages = 1 };
	unsigned int i;

	for (i = 0; i < HEADERS && (hdr[i].flags || hdr[i].len); i++) {
		size_t need = (hdr[i].len + page_size - 1) / page_size;
		unsigned char *data = mem + res.pages * page_size;
		__u64 pos = rcv.pos;

		if (need > pages - res.pages)
			die("header %u: %u bytes, there are %zu pages left of %zu",
			    i, hdr[i].len, pages - res.pages, pages);
		take_piece(&hdr[i], i, data, true);
		keep(data, hdr[i].len, pos);
		res.bytes += hdr[i].len;
		if (hdr[i].flags & VIRTIO_VSOCK_USR_COPIED)
			res.copied += hdr[i].len;
		res.pages += need;
	}
	res.headers = i;
	all_zero((unsigned char *)(hdr + i), page_size - i * sizeof(*hdr),
		 "behind the headers");
	return res;
}

/* ---------- the receiver: calls ---------- */

struct call {
	unsigned char *mem;
	size_t pages;
	unsigned int optlen;	/* 8: the short form */
	__u32 flags;
	bool fixed;		/* the argument cannot be written */
	bool lied;		/* the flags say wrongly that nothing is there */
	/* out: */
	int err;
	struct vm_sockets_zerocopy out;
};

/* The argument ends where the page does: a byte beyond it is a fault. */
static void do_call(struct call *c)
{
	struct vm_sockets_zerocopy in = {
		.address = (uintptr_t)c->mem,
		.length = c->pages * page_size,
		.flags = c->flags,
	};
	unsigned char *arg = rcv.arg + page_size - c->optlen;
	socklen_t len = c->optlen;

	memset(arg, 0, c->optlen);
	memcpy(arg, &in, c->optlen < sizeof(in) ? c->optlen : sizeof(in));
	if (c->fixed) {
		if (mprotect(rcv.fixed, page_size, PROT_READ | PROT_WRITE))
			die("mprotect: %s", strerror(errno));
		memcpy(rcv.fixed + page_size - c->optlen, arg, c->optlen);
		if (mprotect(rcv.fixed, page_size, PROT_READ))
			die("mprotect: %s", strerror(errno));
		arg = rcv.fixed + page_size - c->optlen;
	}
	add(CALLS, 1);
	c->err = getsockopt(rcv.fd, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY, arg,
			    &len) ? errno : 0;
	memset(&c->out, 0, sizeof(c->out));
	if (c->err)
		return;
	memcpy(&c->out, arg, c->optlen < sizeof(in) ? c->optlen : sizeof(in));
	if (len != (c->optlen < sizeof(in) ? c->optlen : sizeof(in)))
		die("length %u has become %u", c->optlen, len);
}

static bool has(const struct call *c, size_t end_of_field)
{
	return c->optlen > 8 && c->optlen >= end_of_field;
}

/* Fields follow each other without a gap. */
#define BEFORE(field)	offsetof(struct vm_sockets_zerocopy, field)

/* The result of a call whose pages stay as they are. */
static __u64 call_done(struct call *c, int before)
{
	int after = queued_bytes(rcv.fd);
	__u64 start = rcv.pos;
	struct result res = take_mapped(c->mem, c->pages);

	if (has(c, BEFORE(copied)) && c->out.bytes != res.bytes)
		die("%llu bytes, the headers say %llu",
		    (unsigned long long)c->out.bytes,
		    (unsigned long long)res.bytes);
	if (has(c, BEFORE(queued)) && c->out.copied != res.copied)
		die("%llu bytes copied, the headers say %llu",
		    (unsigned long long)c->out.copied,
		    (unsigned long long)res.copied);
	if (has(c, BEFORE(error)) && c->out.headers != res.headers)
		die("%u headers, there are %u", c->out.headers, res.headers);
	if (has(c, BEFORE(status)) && c->out.error)
		die("error %u", c->out.error);
	if (has(c, ARG_SIZE) && c->out.reserved2)
		die("reserved2 is %u", c->out.reserved2);
	if (has(c, BEFORE(bytes)) && c->out.reserved)
		die("reserved is %u", c->out.reserved);
	if (has(c, BEFORE(headers)) && c->out.queued > (__u64)after)
		die("%llu bytes queued, SIOCINQ says %d",
		    (unsigned long long)c->out.queued, after);
	if (has(c, BEFORE(headers)) && !opt.receiver &&
	    c->out.queued > shared->begun - start - res.bytes)
		die("%llu bytes queued of %llu sent and %llu taken",
		    (unsigned long long)c->out.queued,
		    (unsigned long long)shared->begun,
		    (unsigned long long)(start + res.bytes));
	if ((__u64)after + res.bytes < (__u64)before)
		die("%d bytes queued, %llu taken, %d left", before,
		    (unsigned long long)res.bytes, after);
	if (has(c, BEFORE(reserved2))) {
		__u32 status = c->out.status;

		if (status & ~(VM_SOCKETS_ZEROCOPY_MORE |
			       VM_SOCKETS_ZEROCOPY_FINISHED))
			die("status %#x", status);
		if ((status & VM_SOCKETS_ZEROCOPY_FINISHED) &&
		    (rcv.pos < ses.total || c->out.queued))
			die("finished with %llu bytes to come, %llu queued",
			    (unsigned long long)(ses.total - rcv.pos),
			    (unsigned long long)c->out.queued);
		if ((status & VM_SOCKETS_ZEROCOPY_MORE) && !c->out.queued)
			die("more to receive, and nothing queued");
		/* The rest of a message that has begun is there as well. */
		if (!(status & VM_SOCKETS_ZEROCOPY_MORE) &&
		    (is_stream() ? c->out.queued != 0 : within_message()))
			die("nothing more to receive, and %llu bytes queued",
			    (unsigned long long)c->out.queued);
	}
	/* All there was, when there was room. */
	if (is_stream() && before && !res.bytes)
		die("%d bytes queued, none taken", before);
	/* Old pages that are not in the way may stay after a lie. */
	if (res.pages < c->pages && !c->lied)
		must_be_hole(c->mem + res.pages * page_size,
			     "behind the last page");
	if (res.pages + 1 < c->pages && !c->lied)
		must_be_hole(c->mem + (c->pages - 1) * page_size,
			     "at the end of the range");
	acknowledge();
	return res.bytes;
}

static void call_refused(int before, int err, const char *what)
{
	int after = queued_bytes(rcv.fd);

	add(REFUSED, 1);
	if (after < before)
		die("%s (%s): %d bytes were queued, %d are left", what,
		    strerror(err), before, after);
}

static void random_range(__u64 *r, struct call *c)
{
	struct area *a = some_area(r);
	size_t first = 0;

	c->pages = a->pages;
	if (c->optlen != 8 && !one_in(r, 3)) {
		c->pages = 2 + below(r, a->pages - 1);
		first = below(r, a->pages - c->pages + 1);
	}
	c->mem = a->mem + first * page_size;
}

static unsigned int random_optlen(__u64 *r)
{
	if (one_in(r, 2))
		return ARG_SIZE;
	if (one_in(r, 4))
		return ARG_SIZE + below(r, 64);
	return 16 + below(r, ARG_SIZE - 16);
}

/* Makes the range ready as a careful program would, or does not. */
static void prepare(__u64 *r, struct call *c)
{
	size_t bytes = c->pages * page_size;
	bool clean = one_in(r, 3);

	forget(c->mem, c->pages, one_in(r, 2));
	if (clean && madvise(c->mem, bytes, MADV_DONTNEED))
		die("MADV_DONTNEED: %s", strerror(errno));
	if (clean && one_in(r, 2))
		must_be_hole(c->mem + below(r, bytes), "after MADV_DONTNEED");
	if (c->optlen >= 20 && (clean ? one_in(r, 2) : one_in(r, 8))) {
		c->flags = VM_SOCKETS_ZEROCOPY_UNMAPPED;
		c->lied = !clean;
	}
}

static void map_once(__u64 *r, unsigned int optlen)
{
	struct call c = { .optlen = optlen };
	int before;

	random_range(r, &c);
	prepare(r, &c);
	before = queued_bytes(rcv.fd);
	do_call(&c);
	if (c.err)
		die("mapping %zu pages, optlen %u, flags %u: %s", c.pages,
		    optlen, c.flags, strerror(c.err));
	call_done(&c, before);
}

static void op_map(__u64 *r)
{
	map_once(r, random_optlen(r));
}

static void op_map_short(__u64 *r)
{
	map_once(r, 8);
}

static void op_map_all(__u64 *r)
{
	struct call c = { .optlen = ARG_SIZE };
	int before;

	random_range(r, &c);
	do {
		forget(c.mem, c.pages, false);
		before = queued_bytes(rcv.fd);
		do_call(&c);
		if (c.err)
			die("mapping %zu pages: %s", c.pages, strerror(c.err));
		call_done(&c, before);
	} while (c.out.status & VM_SOCKETS_ZEROCOPY_MORE);
}

/* Lets the queue fill up as far as it will. */
static void op_wait(__u64 *r)
{
	int last = -1, now = queued_bytes(rcv.fd), i;

	for (i = 0; i < 40 && now != last; i++) {
		usleep(below(r, 2000));
		last = now;
		now = queued_bytes(rcv.fd);
	}
	if (one_in(r, 2)) {
		does("map what has come");
		map_once(r, ARG_SIZE);
	}
}

/* The first allocation or copy of a call fails, then the second, ... */
static void op_map_fault(__u64 *r)
{
	unsigned int optlen = one_in(r, 4) ? 8 : random_optlen(r), n;
	bool happened = have_faults;
	struct call c;
	int before;

	for (n = 1; happened; n++) {
		if (n == 500)
			die("the call still fails after %u faults", n);
		c = (struct call){ .optlen = optlen };
		random_range(r, &c);
		prepare(r, &c);
		before = queued_bytes(rcv.fd);
		fault_arm(n);
		do_call(&c);
		happened = fault_happened();
		if (happened)
			add(FAULTS, 1);
		if (c.err && (!happened ||
			      (c.err != ENOMEM && c.err != EFAULT)))
			die("mapping with fault %u (%s): %s", n,
			    happened ? "happened" : "did not happen",
			    strerror(c.err));
		if (c.err) {
			call_refused(before, c.err, "a call with a fault");
			continue;
		}
		call_done(&c, before);
		if (!happened)
			break;
		add(SURVIVED, 1);
		/* If it was the credit update: a new size gives one. */
		rcv.buffer += 64;
		if (set_buffer(rcv.fd, rcv.buffer))
			die("buffer size: %s", strerror(errno));
	}
	if (!have_faults)
		map_once(r, optlen);
}

/* ---------- calls that must fail ---------- */

static void refuse(struct call *c, int err, const char *what)
{
	int before = queued_bytes(rcv.fd);

	do_call(c);
	if (c->err != err)
		die("%s: %s, expected is %s", what,
		    c->err ? strerror(c->err) : "success", strerror(err));
	call_refused(before, c->err, what);
}

static void refuse_raw(void *arg, socklen_t len, socklen_t *lenp, int err,
		       const char *what)
{
	unsigned char *copy = rcv.arg + page_size - (len < 256 ? len : 256);
	int before = queued_bytes(rcv.fd), ret;
	socklen_t n = len;

	if (len <= 256)
		memcpy(copy, arg, len);
	ret = getsockopt(rcv.fd, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY,
			 len <= 256 ? copy : arg, lenp ? lenp : &n);
	if (!ret || errno != err)
		die("%s: %s, expected is %s", what,
		    ret ? strerror(errno) : "success", strerror(err));
	call_refused(before, errno, what);
}

static void op_bad(__u64 *r)
{
	struct area *a = some_area(r);
	struct vm_sockets_zerocopy arg[2] = { {
		.address = (uintptr_t)a->mem,
		.length = a->pages * page_size,
	} };
	struct call c = { .mem = a->mem, .pages = a->pages,
			  .optlen = ARG_SIZE };
	unsigned int kind = below(r, 16);
	int before;

	/* A call that fails may have unmapped what was there. */
	forget(a->mem, a->pages, true);
	switch (kind) {
	case 0:
		arg->address += 1 + below(r, page_size - 1);
		refuse_raw(arg, ARG_SIZE, NULL, EINVAL, "not aligned");
		break;
	case 1:
		arg->length = page_size;
		refuse_raw(arg, ARG_SIZE, NULL, EINVAL, "one page");
		break;
	case 2:
		arg->length -= 1 + below(r, page_size - 1);
		refuse_raw(arg, ARG_SIZE, NULL, EINVAL, "no whole pages");
		break;
	case 3:
		arg->length = page_size * (1ULL << (20 + below(r, 33)));
		refuse_raw(arg, ARG_SIZE, NULL, EINVAL,
			   "longer than the mapping");
		break;
	case 4:
		arg->flags = 2U << below(r, 31);
		refuse_raw(arg, ARG_SIZE, NULL, EINVAL, "flags");
		break;
	case 5:
		arg->reserved = 1 + below(r, 1000);
		refuse_raw(arg, ARG_SIZE, NULL, EINVAL, "reserved");
		break;
	case 6:
		arg->reserved2 = 1 + below(r, 1000);
		refuse_raw(arg, ARG_SIZE, NULL, EINVAL, "reserved2");
		break;
	case 7:
		refuse_raw(arg, one_in(r, 2) ? below(r, 8) : 9 + below(r, 7),
			   NULL, EINVAL, "length of the argument");
		break;
	case 8:
		((unsigned char *)arg)[ARG_SIZE + below(r, ARG_SIZE)] = 1;
		refuse_raw(arg, 2 * ARG_SIZE, NULL, E2BIG, "beyond the argument");
		break;
	case 9:
		arg->address = (uintptr_t)rcv.foreign;
		arg->length = 4 * page_size;
		refuse_raw(arg, one_in(r, 2) ? 8 : ARG_SIZE, NULL, EINVAL,
			   "another socket's mapping");
		break;
	case 10:
		arg->address = ((uintptr_t)rcv.buf + page_size - 1) &
			       ~(page_size - 1);
		arg->length = 4 * page_size;
		refuse_raw(arg, one_in(r, 2) ? 8 : ARG_SIZE, NULL, EINVAL,
			   "memory of another kind");
		break;
	case 11:
		if (a->pages < 4)
			break;
		arg->address += page_size;
		refuse_raw(arg, one_in(r, 2) ? 8 : ARG_SIZE, NULL, EINVAL,
			   "inside the mapping");
		break;
	case 12:
		c.fixed = true;
		refuse(&c, EFAULT, "an argument that cannot be written");
		break;
	case 13:
		if (mprotect(rcv.fixed, page_size, PROT_READ | PROT_WRITE))
			die("mprotect: %s", strerror(errno));
		*(socklen_t *)rcv.fixed = ARG_SIZE;
		if (mprotect(rcv.fixed, page_size, PROT_READ))
			die("mprotect: %s", strerror(errno));
		refuse_raw(arg, ARG_SIZE, (socklen_t *)rcv.fixed, EFAULT,
			   "a length that cannot be written");
		break;
	case 14:
		/* The argument is in the mapping itself. */
		before = queued_bytes(rcv.fd);
		if (!getsockopt(rcv.fd, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY,
				a->mem + page_size,
				&(socklen_t){ ARG_SIZE }) ||
		    (errno != EFAULT && errno != EINVAL))
			die("an argument in the mapping: %s", strerror(errno));
		call_refused(before, errno, "an argument in the mapping");
		break;
	case 15:
		before = queued_bytes(rcv.fd);
		if (!mprotect(a->mem, page_size, PROT_READ | PROT_WRITE) ||
		    errno != EACCES)
			die("the mapping can be made writable");
		if (!mprotect(a->mem, page_size, PROT_READ | PROT_EXEC) ||
		    errno != EACCES)
			die("the mapping can be made executable");
		if (mmap(NULL, 4 * page_size, PROT_READ | PROT_WRITE,
			 MAP_SHARED, rcv.fd, 0) != MAP_FAILED ||
		    errno != EPERM)
			die("a mapping that can be written");
		call_refused(before, EPERM, "mprotect");
		break;
	}
}

static void op_opt(__u64 *r)
{
	struct area *a = some_area(r);
	struct call c = { .mem = a->mem, .pages = a->pages,
			  .optlen = one_in(r, 2) ? 8 : ARG_SIZE };

	forget(a->mem, a->pages, true);
	if (opt_in(rcv.fd, 0))
		die("cannot opt out: %s", strerror(errno));
	refuse(&c, EACCES, "not opted in");
	rcv.opted = false;
}

/* ---------- what happens to the mappings ---------- */

static void op_reread(__u64 *r)
{
	unsigned int n;

	if (!rcv.nkept)
		return;
	for (n = 1 + below(r, 8); n; n--)
		reread(&rcv.kept[below(r, rcv.nkept)],
		       "data that was mapped earlier");
}

static void release_held(void)
{
	size_t len = rcv.held_len;

	if (!len)
		return;
	rcv.held_len = 0;
	if (read(rcv.held[0], rcv.buf, len) != (ssize_t)len)
		die("pipe: %s", strerror(errno));
	compare(rcv.buf, rcv.held_pos, len, "a page in a pipe");
	add(REREAD, len);
}

/* A pipe has a reference to a page, also after it is unmapped. */
static void op_hold(__u64 *r)
{
	const struct kept *k;
	struct iovec iov;
	size_t pages;

	release_held();
	if (!rcv.nkept)
		return;
	k = &rcv.kept[below(r, rcv.nkept)];
	pages = (k->len + page_size - 1) / page_size;
	pages = below(r, pages) * page_size;
	iov.iov_base = k->mem + pages;
	iov.iov_len = k->len - pages < page_size ? k->len - pages : page_size;
	if (vmsplice(rcv.held[1], &iov, 1, 0) != (ssize_t)iov.iov_len)
		die("vmsplice: %s", strerror(errno));
	rcv.held_pos = k->pos + pages;
	rcv.held_len = iov.iov_len;
}

static void op_dontneed(__u64 *r)
{
	struct area *a = some_area(r);
	size_t first = below(r, a->pages);
	size_t pages = 1 + below(r, a->pages - first);
	unsigned char *mem = a->mem + first * page_size;

	forget(mem, pages, true);
	if (madvise(mem, pages * page_size, MADV_DONTNEED))
		die("MADV_DONTNEED: %s", strerror(errno));
	must_be_hole(mem + below(r, pages * page_size), "after MADV_DONTNEED");
}

static void op_remap(__u64 *r)
{
	struct area *a = &rcv.area[below(r, AREAS)];

	if (a->mem) {
		forget(a->mem, a->pages, true);
		unmap(a->mem, a->pages);
		a->mem = NULL;
	}
	if (!one_in(r, 4)) {
		a->pages = random_pages(r);
		a->mem = have_faults && one_in(r, 4) ?
				 map_socket_with_faults(a->pages) :
				 map_socket(a->pages);
		must_be_hole(a->mem + below(r, a->pages * page_size),
			     "a new mapping");
	}
}

/* Takes a piece out of the middle: the two others are mappings like any. */
static void op_punch(__u64 *r)
{
	struct area *a = some_area(r), *b = NULL;
	size_t first, pages;
	unsigned int i;

	for (i = 0; i < AREAS; i++)
		if (!rcv.area[i].mem)
			b = &rcv.area[i];
	if (!b || a->pages < 5)
		return;
	first = 2 + below(r, a->pages - 4);
	pages = 1 + below(r, a->pages - first - 2);
	forget(a->mem + first * page_size, pages, true);
	unmap(a->mem + first * page_size, pages);
	b->mem = a->mem + (first + pages) * page_size;
	b->pages = a->pages - first - pages;
	a->pages = first;
}

static void op_move(__u64 *r)
{
	struct area *a = some_area(r);
	size_t bytes = a->pages * page_size;
	unsigned char *to;
	unsigned int i;

	if (mremap(a->mem, bytes, bytes + page_size, MREMAP_MAYMOVE) !=
	    MAP_FAILED)
		die("the mapping grows");
	if (mremap(a->mem, 0, bytes, MREMAP_MAYMOVE) != MAP_FAILED)
		die("the mapping can be doubled");
	if (a->pages > 3 && one_in(r, 3)) {
		forget(a->mem + 3 * page_size, a->pages - 3, true);
		if (mremap(a->mem, bytes, 3 * page_size, 0) != a->mem)
			die("mremap, shrinking: %s", strerror(errno));
		a->pages = 3;
		bytes = 3 * page_size;
	}
	to = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (to == MAP_FAILED ||
	    mremap(a->mem, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) !=
	    to)
		die("mremap, moving: %s", strerror(errno));
	for (i = 0; i < rcv.nkept; i++)
		if (rcv.kept[i].mem >= a->mem &&
		    rcv.kept[i].mem < a->mem + bytes)
			rcv.kept[i].mem += to - a->mem;
	a->mem = to;
}

static void op_protect(__u64 *r)
{
	struct area *a = some_area(r);
	size_t bytes = a->pages * page_size;

	if (mprotect(a->mem, bytes, PROT_NONE))
		die("mprotect: %s", strerror(errno));
	if (one_in(r, 2))
		usleep(below(r, 200));
	/* Not by a system call: some kernels copy from there all the same. */
	if (copy_there(rcv.buf, a->mem + below(r, bytes), 1))
		die("PROT_NONE can be read");
	if (mprotect(a->mem, bytes, PROT_READ))
		die("mprotect: %s", strerror(errno));
}

static void reap(void)
{
	int status = 0;

	if (rcv.child <= 0)
		return;
	if (waitpid(rcv.child, &status, 0) != rcv.child || status)
		die("the child sees the parent's mapping (status %#x)", status);
	rcv.child = 0;
}

/* A child has the socket and not the pages. */
static void op_fork(__u64 *r)
{
	struct area *a = some_area(r);
	unsigned int us = one_in(r, 2) ? below(r, 5000) : 0;

	reap();
	add(FORKS, 1);
	rcv.child = fork();
	if (rcv.child < 0)
		die("fork: %s", strerror(errno));
	if (rcv.child)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (us)
		usleep(us);
	_exit(is_hole(a->mem) && is_hole(a->mem + page_size) ? 0 : 1);
}

/* ---------- a thread that unmaps what is being received ---------- */

enum { NOBODY, RUN, STOP };

static struct race {
	atomic_int state;	/* what the thread shall do */
	atomic_bool idle;	/* what it does */
	unsigned char *mem;	/* RACE_PAGES, and as many to move to */
	unsigned char *copy;
	unsigned char *seen;	/* by the second thread */
	__u64 r;
	pthread_t thread;
	bool started;
} race;

static void *racer(void *arg)
{
	size_t bytes = RACE_PAGES * page_size, first, pages;
	unsigned char *mem = race.mem;
	struct iovec local = { .iov_base = race.seen }, remote;
	void *ret = NULL;

	for (;;) {
		if (race.state != RUN) {
			race.idle = true;
			if (race.state == STOP)
				return NULL;
			sched_yield();
			continue;
		}
		race.idle = false;
		first = below(&race.r, RACE_PAGES);
		pages = 1 + below(&race.r, RACE_PAGES - first);
		switch (below(&race.r, 8)) {
		case 0:
			munmap(mem, bytes);
			break;
		case 1:
			munmap(mem + first * page_size, pages * page_size);
			break;
		case 2:
			madvise(mem + first * page_size, pages * page_size,
				MADV_DONTNEED);
			break;
		case 3:
			mprotect(mem, bytes, PROT_NONE);
			mprotect(mem, bytes, PROT_READ);
			break;
		case 4:
			mremap(mem, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
			       mem + bytes);
			mremap(mem + bytes, bytes, bytes,
			       MREMAP_MAYMOVE | MREMAP_FIXED, mem);
			/* Nobody else may get this place. */
			mmap(mem + bytes, bytes, PROT_NONE, MAP_PRIVATE |
			     MAP_ANONYMOUS | MAP_FIXED, -1, 0);
			break;
		case 5:
			sched_yield();
			break;
		default:
			/* Pages have one user more for a moment. */
			local.iov_len = bytes;
			remote.iov_base = mem + first * page_size;
			remote.iov_len = pages * page_size;
			process_vm_readv(me->pid, &local, 1, &remote, 1, 0);
			continue;
		}
		ret = mmap(mem, bytes, PROT_READ, MAP_SHARED | MAP_FIXED,
			   rcv.fd, 0);
		if (ret == MAP_FAILED)
			die("mmap by the second thread: %s", strerror(errno));
		if (one_in(&race.r, 2))
			sched_yield();
		if (one_in(&race.r, 8))
			usleep(below(&race.r, 100));
	}
}

static void race_start(void)
{
	size_t bytes = 2 * RACE_PAGES * page_size;

	race.mem = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);
	race.copy = malloc(bytes);
	race.seen = malloc(bytes);
	if (race.mem == MAP_FAILED || !race.copy || !race.seen)
		die("no memory");
	race.r = rnd_for(ses.seed, FOR_RACER, 0);
	if (pthread_create(&race.thread, NULL, racer, NULL))
		die("no second thread");
	race.started = true;
}

/* What is still there must be right, what is not is gone with its mapping. */
static void take_raced(struct call *c)
{
	const struct virtio_vsock_usr_hdr *hdr = (void *)race.copy;
	__u64 end = rcv.pos + c->out.bytes, left = 0;
	size_t page = 1, need, got;
	unsigned char *data;
	unsigned int i = 0;

	if (copy_there(race.copy, c->mem, page_size) == page_size) {
		for (i = 0; i < HEADERS && (hdr[i].flags || hdr[i].len); i++) {
			need = (hdr[i].len + page_size - 1) / page_size;
			if (need > c->pages - page)
				die("header %u: %u bytes, there are %zu pages left",
				    i, hdr[i].len, c->pages - page);
			data = race.copy + page * page_size;
			got = copy_there(data, c->mem + page * page_size,
					 need * page_size);
			if (got && got < hdr[i].len)
				compare(data, rcv.pos, got,
					"data that is being unmapped");
			take_piece(&hdr[i], i, data, got == need * page_size);
			page += need;
		}
		if (rcv.pos != end || i != c->out.headers)
			die("%llu bytes in %u headers, the call says %llu in %u",
			    (unsigned long long)(c->out.bytes + rcv.pos - end),
			    i, (unsigned long long)c->out.bytes,
			    c->out.headers);
		all_zero((unsigned char *)(hdr + i),
			 page_size - i * sizeof(*hdr), "behind the headers");
		return;
	}
	left = c->out.bytes;
	add(VANISHED, left);
	take(left);
}

static void op_race(__u64 *r)
{
	unsigned int n = 1 + below(r, 10), i;
	struct call c;
	int before, after;

	if (!race.started)
		race_start();
	race.state = RUN;
	for (i = 0; i < n; i++) {
		c = (struct call){ .optlen = ARG_SIZE, .mem = race.mem };
		c.pages = 2 + below(r, RACE_PAGES - 1);
		if (one_in(r, 8))
			c.flags = VM_SOCKETS_ZEROCOPY_UNMAPPED;
		before = queued_bytes(rcv.fd);
		do_call(&c);
		after = queued_bytes(rcv.fd);
		add(RACES, 1);
		if (c.err) {
			if (c.err != EINVAL && c.err != EFAULT)
				die("while it is unmapped: %s",
				    strerror(c.err));
			call_refused(before, c.err, "while it is unmapped");
			sched_yield();
			continue;
		}
		if (after + (int)c.out.bytes < before)
			die("%d bytes queued, %llu taken, %d left", before,
			    (unsigned long long)c.out.bytes, after);
		take_raced(&c);
		acknowledge();
	}
	race.state = NOBODY;
	race.idle = false;
	while (!race.idle)
		sched_yield();
}

static void race_end(void)
{
	if (!race.started)
		return;
	race.state = STOP;
	pthread_join(race.thread, NULL);
	munmap(race.mem, 2 * RACE_PAGES * page_size);
	race.started = false;
}

/* ---------- plain receives ---------- */

static size_t random_length(__u64 *r)
{
	/* Messages are to be cut off at times, not mostly. */
	switch (below(r, is_stream() ? 4 : 12)) {
	case 0:
		return page_size * rnd_size(r, 16) + below(r, 3) - 1;
	case 1:
	case 4 ... 11:
		return MAX_CALL;
	default:
		return rnd_size(r, MAX_CALL);
	}
}

static ssize_t receive(size_t len, int flags, __u64 *r, int *msg_flags,
		       int *hint)
{
	size_t first = one_in(r, 3) ? below(r, len + 1) : len;
	char control[256];
	struct iovec iov[2] = {
		{ rcv.buf, first },
		{ rcv.buf + first, len - first },
	};
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = first < len ? 2 : 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg;
	ssize_t ret;

	*hint = -1;
	*msg_flags = 0;
	ret = recvmsg(rcv.fd, &msg, flags);
	if (ret < 0)
		return -errno;
	*msg_flags = msg.msg_flags;
	for (cmsg = CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg))
		if (cmsg->cmsg_level == SOL_SOCKET &&
		    cmsg->cmsg_type == SCM_INQ)
			memcpy(hint, CMSG_DATA(cmsg), sizeof(*hint));
	return ret;
}

static void plain(__u64 *r, int flags)
{
	bool peek = flags & MSG_PEEK;
	size_t len = random_length(r);
	int before, after, hint, got_flags;
	__u64 left;
	ssize_t ret;

	if (!one_in(r, 4))
		flags |= MSG_DONTWAIT;
	if (!is_stream() && one_in(r, 4))
		flags |= MSG_TRUNC;
	before = queued_bytes(rcv.fd);
	ret = receive(len, flags, r, &got_flags, &hint);
	if (ret == -EAGAIN && (flags & MSG_DONTWAIT)) {
		if (is_stream() ? before && rcv.lowat == 1 : within_message())
			die("%d bytes queued, and EAGAIN", before);
		return;
	}
	if (ret < 0)
		die("recvmsg of %zu bytes, flags %#x: %s", len, flags,
		    strerror(-ret));
	if (!ret)
		die("recvmsg of %zu bytes, flags %#x: the end, %llu are missing",
		    len, flags, (unsigned long long)(ses.total - rcv.pos));
	if (is_stream()) {
		if ((size_t)ret > len)
			die("recvmsg of %zu bytes: %zd", len, ret);
		left = ret;
	} else {
		bool cut;

		left = end_of_packet() - rcv.pos;
		cut = left > len;
		if ((size_t)ret != (cut && !(flags & MSG_TRUNC) ? len : left))
			die("recvmsg of %zu bytes, flags %#x: %zd, %llu are left of packet %u",
			    len, flags, ret, (unsigned long long)left,
			    rcv.packet);
		if (!!(got_flags & MSG_TRUNC) != cut)
			die("recvmsg: flags %#x for %llu bytes in %zu",
			    got_flags, (unsigned long long)left, len);
		if (!peek && !!(got_flags & MSG_EOR) != ends_record(rcv.packet))
			die("recvmsg: flags %#x for packet %u", got_flags,
			    rcv.packet);
		if (cut)
			ret = len;
	}
	compare(rcv.buf, rcv.pos, ret, peek ? "peeked" : "received");
	add(peek ? PEEKED : RECEIVED, ret);
	if (peek)
		left = 0;
	else
		add(DISCARDED, left - ret);
	if (!opt.receiver && rcv.pos + left > shared->begun)
		die("more than was sent");
	after = queued_bytes(rcv.fd);
	if (after + (long long)left < before)
		die("%d bytes queued, %llu taken, %d left", before,
		    (unsigned long long)left, after);
	if (hint >= 0 && is_stream() && hint > after &&
	    rcv.pos + left < ses.total)
		die("the hint is %d, SIOCINQ says %d", hint, after);
	if (hint == 0 && is_stream() && before > (long long)left)
		die("the hint is 0, %lld bytes are queued", before -
		    (long long)left);
	take(left);
	acknowledge();
}

static void op_recv(__u64 *r)
{
	plain(r, 0);
}

static void op_peek(__u64 *r)
{
	plain(r, MSG_PEEK);
}

static void op_poll(__u64 *r)
{
	struct pollfd pfd = { .fd = rcv.fd, .events = POLLIN | POLLRDHUP };
	struct epoll_event event = {};
	int timeout = one_in(r, 3) ? -1 : (int)below(r, 10);
	int before = queued_bytes(rcv.fd), lowat = rcv.lowat, after;
	bool sure = within_message(), readable;

	if (one_in(r, 4)) {
		if (epoll_wait(rcv.epoll, &event, 1, timeout) < 0)
			die("epoll_wait: %s", strerror(errno));
		pfd.revents = event.events;
	} else if (poll(&pfd, 1, timeout) < 0) {
		die("poll: %s", strerror(errno));
	}
	after = queued_bytes(rcv.fd);
	readable = pfd.revents & POLLIN;
	if (pfd.revents & POLLERR)
		die("poll: events %#x", pfd.revents);
	if (!readable && (is_stream() ? before >= lowat : sure))
		die("poll: not readable with %d bytes queued, low-water mark %d",
		    before, lowat);
	if (readable && is_stream() && after < lowat &&
	    !(pfd.revents & (POLLRDHUP | POLLHUP)))
		die("poll: readable with %d bytes queued, low-water mark %d",
		    after, lowat);
	if (timeout < 0 && !pfd.revents)
		die("poll returns without an event");
}

static void op_lowat(__u64 *r)
{
	int low = one_in(r, 2) ? 1 : rnd_size(r, ses.buffer / 8);

	/* Not for messages: there it only says when credit is due. */
	if (!is_stream())
		return;
	if (setsockopt(rcv.fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)))
		die("SO_RCVLOWAT: %s", strerror(errno));
	rcv.lowat = low;
}

static void op_pause(__u64 *r)
{
	usleep(below(r, 3000));
}

/* Nothing goes back any more; what comes is not concerned. */
static void op_shut(__u64 *r)
{
	if (!is_stream() || rcv.ended || !one_in(r, 4))
		return;
	rcv.ended = true;
	if (shutdown(rcv.fd, SHUT_WR) && errno != ENOTCONN)
		die("shutdown: %s", strerror(errno));
}

/* ---------- the receiver ---------- */

static const struct op {
	void (*fn)(__u64 *r);
	const char *name;
	unsigned char weight[4];	/* in a mixture, when mapping, when reading, when racing */
	bool plain;			/* needs no mapping */
} ops[] = {
	{ op_map,	"map",		{ 20, 50, 5, 20 } },
	{ op_map_short,	"map, short",	{ 10, 15, 5, 5 } },
	{ op_map_all,	"map all",	{ 2, 5, 1, 2 } },
	{ op_map_fault,	"map, faults",	{ 5, 5, 2, 2 } },
	{ op_race,	"map, race",	{ 2, 1, 1, 15 } },
	{ op_bad,	"must fail",	{ 8, 5, 5, 5 } },
	{ op_opt,	"opt out",	{ 2, 1, 2, 1 } },
	{ op_reread,	"look again",	{ 10, 10, 10, 5 } },
	{ op_hold,	"hold",		{ 5, 5, 5, 5 } },
	{ op_dontneed,	"DONTNEED",	{ 5, 5, 3, 3 } },
	{ op_remap,	"mmap",		{ 5, 5, 3, 5 } },
	{ op_punch,	"munmap",	{ 3, 3, 2, 3 } },
	{ op_move,	"mremap",	{ 3, 3, 2, 3 } },
	{ op_protect,	"mprotect",	{ 2, 2, 1, 2 } },
	{ op_fork,	"fork",		{ 1, 1, 1, 1 } },
	{ op_wait,	"wait",		{ 2, 4, 2, 2 }, },
	{ op_recv,	"recv",		{ 20, 2, 50, 10 }, true },
	{ op_peek,	"peek",		{ 10, 3, 20, 5 }, true },
	{ op_poll,	"poll",		{ 10, 10, 10, 10 }, true },
	{ op_lowat,	"low-water",	{ 3, 2, 3, 2 }, true },
	{ op_pause,	"pause",	{ 5, 5, 5, 5 }, true },
	{ op_shut,	"shutdown",	{ 1, 1, 1, 1 }, true },
};

static const struct op *choose(__u64 *r, int profile)
{
	unsigned int i, sum = 0, pick;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		sum += ops[i].weight[profile];
	pick = below(r, sum);
	for (i = 0; pick >= ops[i].weight[profile]; i++)
		pick -= ops[i].weight[profile];
	return &ops[i];
}

static unsigned char *guarded_page(void)
{
	unsigned char *mem = mmap(NULL, 2 * page_size, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED || mprotect(mem + page_size, page_size, PROT_NONE))
		die("no memory");
	return mem;
}

static void receiver_setup(void)
{
	struct sigaction fault = { .sa_sigaction = fault_handler,
				   .sa_flags = SA_SIGINFO };
	struct sigaction state = { .sa_handler = state_handler,
				   .sa_flags = SA_RESTART };
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP };
	int one = 1;

	sigaction(SIGBUS, &fault, NULL);
	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGUSR1, &state, NULL);
	rcv.fd = ses.rcv;
	rcv.lowat = 1;
	rcv.buffer = ses.buffer;
	rcv.opted = ses.opt_in < 2;
	rcv.buf = malloc(MAX_CALL + page_size);
	rcv.arg = guarded_page();
	rcv.fixed = guarded_page();
	rcv.epoll = epoll_create1(0);
	if (!rcv.buf || rcv.epoll < 0 || pipe(rcv.pipe) || pipe(rcv.held) ||
	    epoll_ctl(rcv.epoll, EPOLL_CTL_ADD, rcv.fd, &event))
		die("set-up: %s", strerror(errno));
	setsockopt(rcv.fd, SOL_SOCKET, SO_INQ, &one, sizeof(one));
	faults_open();
	if (opt.recv_only)
		return;
	rcv.foreign_fd = socket(AF_VSOCK, ses.type, 0);
	if (rcv.foreign_fd < 0 || opt_in(rcv.foreign_fd, 1))
		die("cannot opt in: %s", strerror(errno));
	rcv.foreign = mmap(NULL, 4 * page_size, PROT_READ, MAP_SHARED,
			   rcv.foreign_fd, 0);
	if (rcv.foreign == MAP_FAILED)
		die("mmap: %s", strerror(errno));
}

static void reread_all(const char *what)
{
	unsigned int i;

	for (i = 0; i < rcv.nkept; i++)
		reread(&rcv.kept[i], what);
}

/* Everything has been taken, and the end says so in every way. */
static void the_end(__u64 *r)
{
	struct pollfd pfd = { .fd = rcv.fd, .events = POLLRDHUP };
	struct call c = { .optlen = ARG_SIZE };
	int queued, hint, got_flags;
	ssize_t ret;

	if (poll(&pfd, 1, -1) != 1 || !(pfd.revents & (POLLRDHUP | POLLHUP)))
		die("poll at the end: events %#x, %s", pfd.revents,
		    strerror(errno));
	queued = queued_bytes(rcv.fd);
	if (queued)
		die("%d bytes are queued at the end", queued);
	if (!opt.recv_only) {
		random_range(r, &c);
		forget(c.mem, c.pages, true);
		do_call(&c);
		if (c.err)
			die("mapping at the end: %s", strerror(c.err));
		call_done(&c, 0);
		if (c.out.status != VM_SOCKETS_ZEROCOPY_FINISHED)
			die("status %#x at the end", c.out.status);
		map_once(r, 8);
	}
	ret = receive(MAX_CALL, 0, r, &got_flags, &hint);
	if (ret)
		die("recvmsg at the end: %zd", ret);
}

static void receiver_main(void)
{
	__u64 r = rnd_for(ses.seed, FOR_RECEIVER, 0);
	unsigned int op, later = 1 + below(&r, 100);
	int profile = below(&r, 4), i, ends = below(&r, 3);
	const struct op *what;
	struct call c;

	if (ses.snd > 0)
		close(ses.snd);
	receiver_setup();
	for (op = 1; rcv.pos < ses.total; op++) {
		r = rnd_for(ses.seed, FOR_RECEIVER, op);
		if (op == ses.early)
			break;
		if (one_in(&r, 300))
			profile = below(&r, 4);
		what = choose(&r, profile);
		shared->ops++;
		if (!what->plain && opt.recv_only) {
			if (!one_in(&r, 4))
				continue;
			begin(op, "recv");
			op_recv(&r);
			continue;
		}
		if (!rcv.opted && !what->plain && op >= later) {
			if (opt_in(rcv.fd, 1))
				die("cannot opt in: %s", strerror(errno));
			rcv.opted = true;
		}
		if (!rcv.opted && !what->plain)
			continue;
		begin(op, what->name);
		what->fn(&r);
	}
	race_end();
	reap();
	release_held();
	if (rcv.pos == ses.total) {
		begin(op, "end");
		if (!rcv.opted && !opt.recv_only && opt_in(rcv.fd, 1))
			die("cannot opt in: %s", strerror(errno));
		the_end(&r);
	} else {
		begin(op, "early end");
		shared->early = true;
		if (ends == 0)
			shutdown(rcv.fd, SHUT_RDWR);
		if (ends == 0 && rcv.opted && !opt.recv_only) {
			c = (struct call){ .optlen = ARG_SIZE };
			random_range(&r, &c);
			forget(c.mem, c.pages, true);
			do_call(&c);
			if (!c.err)
				take_mapped(c.mem, c.pages);
		}
	}
	me->done = true;
	reread_all("at the end");
	/* A mapping holds the socket. */
	if (ends)
		close(rcv.fd);
	reread_all("after close()");
	if (ends == 1)
		_exit(0);
	for (i = 0; i < AREAS; i++)
		if (rcv.area[i].mem)
			unmap(rcv.area[i].mem, rcv.area[i].pages);
	_exit(0);
}

/* ---------- running sessions ---------- */

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static void show_stack(pid_t pid)
{
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stack", pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		ksft_print_msg("      %s", line);
	if (f)
		fclose(f);
}

static void show_side(struct side *side, const char *name, int status)
{
	unsigned int i;

	if (!side->pid)
		return;
	ksft_print_msg("  %s, operation %u (%s): %s%s\n", name, side->op,
		       side->does ? side->does : "set-up",
		       side->error[0] ? side->error :
		       side->done ? "done" : "under way",
		       WIFSIGNALED(status) ? " (ended by a signal)" : "");
	ksft_print_msg("    its last operations:");
	for (i = LAST; i; i--)
		if (side->op + 1 >= i && side->last[(side->op + 1 - i) % LAST])
			printf(" %s;",
			       side->last[(side->op + 1 - i) % LAST]);
	printf("\n");
}

static void show_failure(const char *what, int snd_status, int rcv_status)
{
	ksft_print_msg("%s: %s\n", is_stream() ? "stream" : "seqpacket", what);
	show_side(&shared->rcv, "receiver", rcv_status);
	show_side(&shared->snd, "sender", snd_status);
	ksft_print_msg("  of %llu bytes in %u packets %llu are sent, %llu taken, %d queued\n",
		       (unsigned long long)ses.total, ses.packets,
		       (unsigned long long)shared->begun,
		       (unsigned long long)shared->taken, (int)shared->queued);
	ksft_print_msg("  buffers of %llu bytes\n",
		       (unsigned long long)ses.buffer);
	ksft_print_msg("  again: %s --type %s --seed %llu --rounds 1%s%s\n",
		       PROGRAM, is_stream() ? "stream" : "seqpacket",
		       (unsigned long long)ses.seed,
		       opt.recv_only ? " --recv-only" : "",
		       have_faults ? " --faults" : " --no-faults");
}

static pid_t start(struct side *side, void (*fn)(void))
{
	pid_t pid = fork();

	if (pid < 0)
		ksft_exit_fail_msg("fork: %s\n", strerror(errno));
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGPIPE, SIG_IGN);
		side->pid = getpid();
		me = side;
		fn();
	}
	side->pid = pid;
	return pid;
}

/* Returns false when the session failed, and says why. */
static bool session(int type, __u64 seed)
{
	unsigned long long taken = 0;
	bool snd_runs, rcv_runs, stalled = false, bad = false;
	int snd_status = 0, rcv_status = 0, status;
	double moved;
	pid_t pid;

	memset(&shared->snd, 0, sizeof(shared->snd));
	memset(&shared->rcv, 0, sizeof(shared->rcv));
	shared->begun = 0;
	shared->taken = 0;
	shared->early = false;
	shared->queued = -1;
	plan(type, seed);
	ses.snd = -1;
	ses.rcv = -1;
	if (opt.sender || opt.receiver ? connect_elsewhere() : connect_here()) {
		ksft_print_msg("connection or opting in: %s\n",
			       strerror(errno));
		return false;
	}
	rcv_runs = !opt.sender && start(&shared->rcv, receiver_main);
	snd_runs = !opt.receiver && start(&shared->snd, sender_main);
	close(ses.snd);
	close(ses.rcv);
	moved = now();
	while ((snd_runs || rcv_runs) && !stalled && !bad) {
		pid = waitpid(-1, &status, WNOHANG);
		if (pid > 0) {
			if (pid == shared->rcv.pid) {
				rcv_runs = false;
				rcv_status = status;
			} else if (pid == shared->snd.pid) {
				snd_runs = false;
				snd_status = status;
			}
			bad = status;
			continue;
		}
		if (shared->taken != taken) {
			taken = shared->taken;
			moved = now();
		}
		stalled = now() - moved > STALL_S;
		usleep(500);
	}
	if (stalled) {
		if (rcv_runs)
			kill(shared->rcv.pid, SIGUSR1);
		usleep(500000);
	}
	if (stalled || bad) {
		show_failure(stalled ? "nothing moves" : "failed", snd_status,
			     rcv_status);
		if (stalled && rcv_runs)
			show_stack(shared->rcv.pid);
		if (stalled && snd_runs)
			show_stack(shared->snd.pid);
	}
	if (snd_runs)
		kill(shared->snd.pid, SIGKILL);
	if (rcv_runs)
		kill(shared->rcv.pid, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	return !stalled && !bad;
}

static void show_counts(const char *of, unsigned long sessions)
{
	unsigned int i;

	ksft_print_msg("%s: %lu sessions, %llu operations", of, sessions,
		       (unsigned long long)shared->ops);
	for (i = 0; i < COUNTS; i++)
		printf(", %llu %s", (unsigned long long)shared->count[i],
		       count_names[i]);
	printf("\n");
}

static bool debugfs_write(const char *path, const char *text)
{
	char name[128];
	bool good;
	int fd;

	snprintf(name, sizeof(name), "/sys/kernel/debug/%s", path);
	fd = open(name, O_WRONLY);
	if (fd < 0)
		return false;
	good = write(fd, text, strlen(text)) > 0;
	close(fd);
	return good;
}

/* All kinds of allocations count, and nothing is logged. */
static bool setup_faults(void)
{
	bool slab, page, copy;

	if (access("/proc/self/fail-nth", W_OK))
		return false;
	slab = debugfs_write("failslab/ignore-gfp-wait", "N") &&
	       debugfs_write("failslab/verbose", "0");
	page = debugfs_write("fail_page_alloc/ignore-gfp-wait", "N") &&
	       debugfs_write("fail_page_alloc/ignore-gfp-highmem", "N") &&
	       debugfs_write("fail_page_alloc/min-order", "0") &&
	       debugfs_write("fail_page_alloc/verbose", "0");
	copy = debugfs_write("fail_usercopy/verbose", "0");
	ksft_print_msg("faults:%s%s%s\n", slab ? " slab" : "",
		       page ? " pages" : "", copy ? " user copies" : "");
	return slab && page && copy;
}

static void usage(void)
{
	printf("Usage: " PROGRAM " [OPTION...]\n"
	       "  -r, --run NAME     run one test\n"
	       "  --type TYPE        stream or seqpacket, both by default\n"
	       "  --seed N           one test of each type, whose first session has this seed\n"
	       "  --rounds N         sessions of a test (%lu)\n"
	       "  --seconds N        go on for so long in all (FUZZ_SECONDS)\n"
	       "  --faults           fault injection must be there; --no-faults: leave it out\n"
	       "  --recv-only        no mapping, for kernels without it\n"
	       "  --trace            print every operation\n"
	       "  --receiver         the sender runs elsewhere\n"
	       "  --sender CID       the receiver runs there; start it first\n"
	       "  --port N           its port (%u)\n", opt.rounds, opt.port);
}

static void read_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "run", required_argument, NULL, 'r' },
		{ "type", required_argument, NULL, 't' },
		{ "seed", required_argument, NULL, 's' },
		{ "rounds", required_argument, NULL, 'n' },
		{ "seconds", required_argument, NULL, 'S' },
		{ "faults", no_argument, NULL, 'f' },
		{ "no-faults", no_argument, NULL, 'F' },
		{ "recv-only", no_argument, NULL, 'R' },
		{ "trace", no_argument, NULL, 'v' },
		{ "receiver", no_argument, NULL, 'l' },
		{ "sender", required_argument, NULL, 'c' },
		{ "port", required_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{}
	};
	const char *seconds = getenv("FUZZ_SECONDS");
	int c;

	if (seconds)
		opt.seconds = strtoul(seconds, NULL, 0);
	while ((c = getopt_long(argc, argv, "r:h", options, NULL)) != -1) {
		switch (c) {
		case 'r':
			opt.only = optarg;
			break;
		case 't':
			opt.type = strcmp(optarg, "stream") ? SOCK_SEQPACKET :
							     SOCK_STREAM;
			break;
		case 's':
			opt.seed = strtoll(optarg, NULL, 0);
			break;
		case 'n':
			opt.rounds = strtoul(optarg, NULL, 0);
			break;
		case 'S':
			opt.seconds = strtoul(optarg, NULL, 0);
			break;
		case 'f':
			opt.faults = 1;
			break;
		case 'F':
			opt.faults = -1;
			break;
		case 'R':
			opt.recv_only = true;
			break;
		case 'v':
			opt.trace = true;
			break;
		case 'l':
			opt.receiver = true;
			break;
		case 'c':
			opt.sender = true;
			opt.cid = strtoul(optarg, NULL, 0);
			break;
		case 'p':
			opt.port = strtoul(optarg, NULL, 0);
			break;
		default:
			usage();
			exit(c == 'h' ? KSFT_PASS : KSFT_FAIL);
		}
	}
}

/* Every kind of receiving has happened, else a test proves nothing. */
static bool all_kinds(const __u64 *before, bool say)
{
	static const int kinds[] = { MAPPED, COPIED, RECEIVED, PEEKED, REREAD,
				     REFUSED, FAULTS };
	unsigned int i;

	if (opt.sender || opt.recv_only || opt.seed >= 0)
		return true;
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		/* Pages of another size are not mapped. */
		if (kinds[i] == MAPPED && page_size != 4096)
			continue;
		if (kinds[i] == FAULTS && !have_faults)
			continue;
		if (shared->count[kinds[i]] == before[kinds[i]]) {
			if (say)
				ksft_print_msg("no %s\n",
					       count_names[kinds[i]]);
			return false;
		}
	}
	return true;
}

static unsigned long one_test(int type, __u64 seed, double seconds,
			      const char *name)
{
	__u64 before[COUNTS];
	double end = now() + seconds;
	unsigned long n = 0;
	bool good;

	memcpy(before, shared->count, sizeof(before));
	do {
		good = session(type, seed + n);
		n++;
	} while (good && (n < opt.rounds || now() < end ||
			  (n < 8 * opt.rounds && !all_kinds(before, false))));
	if (good)
		good = all_kinds(before, true);
	ksft_test_result(good, "%s\n", name);
	return n;
}

int main(int argc, char **argv)
{
	static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET };
	char names[ARRAY_SIZE(types) * SEEDS][64];
	__u64 seeds[ARRAY_SIZE(types) * SEEDS];
	int type[ARRAY_SIZE(types) * SEEDS];
	unsigned int n = 0, i, t, s;
	unsigned long sessions = 0;

	read_options(argc, argv);
	page_size = sysconf(_SC_PAGESIZE);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ksft_print_header();
	if (shared == MAP_FAILED)
		ksft_exit_fail_msg("no memory\n");
	if (!opt.recv_only && opt.faults >= 0)
		have_faults = setup_faults();
	if (opt.faults > 0 && !have_faults)
		ksft_exit_fail_msg("no fault injection\n");

	for (t = 0; t < ARRAY_SIZE(types); t++) {
		for (s = 1; s <= (opt.seed < 0 ? SEEDS : 1); s++) {
			seeds[n] = opt.seed < 0 ? s * SEED_STEP : opt.seed;
			type[n] = types[t];
			snprintf(names[n], sizeof(names[n]),
				 PROGRAM ".%s.seed_%u",
				 t ? "seqpacket" : "stream", s);
			if ((!opt.type || opt.type == types[t]) &&
			    (!opt.only || !strcmp(opt.only, names[n])))
				n++;
		}
	}
	if (!n)
		ksft_exit_fail_msg("no such test\n");
	ksft_set_plan(n);
	for (i = 0; i < n; i++)
		sessions += one_test(type[i], seeds[i],
				     (double)opt.seconds / n, names[i]);
	show_counts("in all", sessions);
	ksft_finished();
}
