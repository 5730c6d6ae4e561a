// SPDX-License-Identifier: GPL-2.0-only
/*
 * Credit of the virtio transports of AF_VSOCK: nothing ever stalls, and no
 * packet is sent back that nobody needs.
 *
 * A sender may have as many bytes on their way as the smaller of the two
 * ends' buffers holds.  The receiver returns credit for a packet when it has
 * read all of it, and tells the peer at times of its own choice.  Whenever it
 * is silent too long both ends wait for each other for ever: each transfer
 * here is watched, and five seconds without a byte are a failure.
 *
 * Everything runs over the loopback transport.  VSOCK_CREDIT_MESSAGES sets
 * the number of messages of the random transfers, VSOCK_CREDIT_SEED replays
 * the one session whose seed a failure has printed.
 *
 * Limits that the random transfers keep, since the protocol has them with any
 * choice of credit updates:
 *  - A receive buffer that shrinks under data on its way breaks the connection
 *    (ENOBUFS).  It shrinks here only when no such data can exist.
 *  - Small packets are merged, up to 32 KiB, and a packet that is read in part
 *    returns nothing.  A low-water mark above 1 therefore needs a window of
 *    64 KiB at least, and stays below a quarter of it, as do the packets.
 *  - Each message of SOCK_SEQPACKET takes the room of a struct sk_buff as
 *    well, for which there is no credit: the number on their way is bounded.
 */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/types.h>
#include <linux/vm_sockets.h>
#include <net/if.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include "kselftest_harness.h"

#ifndef AF_VSOCK
#define AF_VSOCK	40
#endif

#define KIB		1024ULL
#define MIB		(1024 * KIB)
#define MAX_BUFFER	(4 * MIB)

#define MESSAGES	1000000
#define SESSION		20000	/* messages of one random session */
#define STALL_MS	5000
#define CASE_TIMEOUT	1200	/* s, the watchdog is what finds a stall */

/* Room that a receiver is sure to have for one message and its overhead. */
#define PER_MESSAGE	1536

/* The byte at offset p of a direction is pattern[p % PERIOD]. */
#define PERIOD		65521
#define MAX_CALL	(1 * MIB)

static unsigned char pattern[PERIOD + MAX_CALL];

static void pattern_init(void)
{
	__u32 x = 1;
	size_t i;

	for (i = 0; i < PERIOD; i++) {
		x = x * 1664525 + 1013904223;
		pattern[i] = x >> 24;
	}
	for (; i < sizeof(pattern); i++)
		pattern[i] = pattern[i - PERIOD];
}

static __u64 rnd(__u64 *state)
{
	__u64 z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static bool one_in(__u64 *state, unsigned int n)
{
	return rnd(state) % n == 0;
}

/* A number from 1 to @max, each power of two as likely as the next. */
static size_t rnd_size(__u64 *state, size_t max)
{
	unsigned int bits = 0;
	size_t size;

	while (bits < 63 && max >> (bits + 1))
		bits++;
	size = 1 + rnd(state) % (1ULL << (rnd(state) % (bits + 1)));

	return size < max ? size : max;
}

static __u64 rnd_between(__u64 *state, __u64 low, __u64 high)
{
	__u64 val = low * rnd_size(state, high / low);

	/* Not only multiples of the lower limit. */
	val += rnd(state) % low;
	return val < high ? val : high;
}

static long long now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000;
}

/* ---------- sockets ---------- */

static int set_buffer(int fd, __u64 size)
{
	return setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_SIZE, &size,
			  sizeof(size));
}

static int set_lowat(int fd, int low)
{
	return setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
}

static int get_ioctl(int fd, unsigned long op)
{
	int val = -1;

	return ioctl(fd, op, &val) ? -errno : val;
}

static __u64 get_buffer(int fd)
{
	__u64 size = 0;
	socklen_t len = sizeof(size);

	getsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_SIZE, &size, &len);
	return size;
}

static int get_lowat(int fd)
{
	int low = -1;
	socklen_t len = sizeof(low);

	getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, &len);
	return low;
}

static int new_socket(int type, __u64 buffer)
{
	__u64 max = MAX_BUFFER;
	int fd = socket(AF_VSOCK, type, 0);

	if (fd < 0)
		return -1;

	if (setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_MAX_SIZE, &max,
		       sizeof(max)) || set_buffer(fd, buffer)) {
		close(fd);
		return -1;
	}

	return fd;
}

/* A send that gets no credit in this time has stalled. */
static int set_send_timeout(int fd)
{
	struct timeval tv = { .tv_sec = STALL_MS / 1000 };

	return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
}

/* The sizes are set before the ends meet, so that both know them. */
static int connect_pair(int type, const __u64 buffer[2], int fd[2])
{
	struct sockaddr_vm addr = {
		.svm_family = AF_VSOCK,
		.svm_cid = VMADDR_CID_LOCAL,
		.svm_port = VMADDR_PORT_ANY,
	};
	socklen_t len = sizeof(addr);
	int listener;

	fd[0] = -1;
	fd[1] = -1;
	listener = new_socket(type, buffer[1]);
	if (listener < 0)
		return -errno;

	if (bind(listener, (struct sockaddr *)&addr, sizeof(addr)) ||
	    getsockname(listener, (struct sockaddr *)&addr, &len) ||
	    listen(listener, 1))
		goto fail;

	fd[0] = new_socket(type, buffer[0]);
	if (fd[0] < 0 ||
	    connect(fd[0], (struct sockaddr *)&addr, sizeof(addr)))
		goto fail;

	fd[1] = accept(listener, NULL, NULL);
	if (fd[1] < 0)
		goto fail;

	close(listener);
	return 0;

fail:
	len = errno;
	close(listener);
	close(fd[0]);
	return -(int)len;
}

static bool no_loopback(int err)
{
	return err == -EAFNOSUPPORT || err == -EADDRNOTAVAIL ||
	       err == -ENODEV || err == -ENETUNREACH || err == -ESOCKTNOSUPPORT;
}

static bool wait_queued(int fd, int bytes)
{
	long long end = now_ms() + STALL_MS;

	while (get_ioctl(fd, SIOCINQ) != bytes) {
		if (now_ms() > end)
			return false;
		sched_yield();
	}

	return true;
}

static bool wait_event(int fd, short event, int ms)
{
	struct pollfd pfd = { .fd = fd, .events = event };

	return poll(&pfd, 1, ms) == 1 && (pfd.revents & event);
}

/* ---------- one direction of a connection ---------- */

enum { ONE_AT_A_TIME, LARGE_AFTER_SMALL, RANDOM };

struct flow {
	int type;
	int snd;
	int rcv;
	__u64 seed;
	unsigned long messages;
	int sizes;		/* one of the enum above */
	size_t max_msg;

	/* Limits of the changes at random times; both 0 is no change. */
	__u64 snd_low, snd_high;
	__u64 rcv_low, rcv_high;
	bool rcv_grows;		/* the receiver's buffer only grows */
	size_t max_lowat;
	__u64 rcv_min;	/* the receiver's buffer is never below */
	unsigned long ahead;	/* messages on their way, SOCK_SEQPACKET */
	bool drain;		/* plain receives that take everything */

	__u64 bytes;		/* all that will be sent */
	sem_t room;		/* what is left of ahead */
	atomic_ullong sent, rcvd;
	atomic_bool snd_done, rcv_done;
	const char *snd_does, *rcv_does;
	char error[160];

	pthread_t snd_thread, rcv_thread;
};

static size_t message_size(const struct flow *flow, __u64 *state,
			   unsigned long i)
{
	switch (flow->sizes) {
	case ONE_AT_A_TIME:
		return flow->max_msg;
	case LARGE_AFTER_SMALL:
		return i % 2 ? flow->max_msg :
			       1 + rnd(state) % (flow->max_msg / 4 + 1);
	default:
		/* The large ones are rare: a million take their time. */
		if (one_in(state, 512))
			return rnd_size(state, flow->max_msg);
		return rnd_size(state, flow->max_msg < 4096 ? flow->max_msg :
							     4096);
	}
}

static unsigned long messages_ahead(__u64 rcv_buffer)
{
	return rcv_buffer < PER_MESSAGE ? 1 : rcv_buffer / PER_MESSAGE;
}

#define flow_fail(flow, fmt, ...) \
	snprintf((flow)->error, sizeof((flow)->error), fmt, ##__VA_ARGS__)

static bool send_message(struct flow *flow, __u64 *state, size_t len)
{
	const unsigned char *data = pattern + flow->sent % PERIOD;
	bool stream = flow->type == SOCK_STREAM;
	bool nonblock = one_in(state, 8);
	size_t done = 0;
	ssize_t ret;

	while (done < len) {
		if (nonblock) {
			flow->snd_does = "poll";
			wait_event(flow->snd, POLLOUT, -1);
		}

		/* A message that is sent in part could not be finished. */
		flow->snd_does = "send";
		ret = send(flow->snd, data + done, len - done, MSG_NOSIGNAL |
			   (nonblock && stream ? MSG_DONTWAIT : 0));
		if (ret < 0 && errno == EAGAIN && nonblock)
			continue;
		if (ret <= 0) {
			flow_fail(flow, "send of %zu returns %zd: %s",
				  len - done, ret, strerror(errno));
			return false;
		}
		done += ret;
		atomic_fetch_add(&flow->sent, ret);
	}

	return true;
}

static void *sender(void *arg)
{
	struct flow *flow = arg;
	__u64 sizes = flow->seed, state = ~flow->seed;
	unsigned long i;

	for (i = 0; i < flow->messages; i++) {
		size_t len = message_size(flow, &sizes, i);

		if (flow->snd_high && one_in(&state, 64)) {
			flow->snd_does = "set buffer";
			set_buffer(flow->snd, rnd_between(&state, flow->snd_low,
							  flow->snd_high));
		}

		flow->snd_does = "wait for messages to be read";
		if (flow->type == SOCK_SEQPACKET)
			sem_wait(&flow->room);

		if (!send_message(flow, &state, len))
			break;
	}

	flow->snd_does = "nothing more";
	flow->snd_done = true;
	return NULL;
}

/* Random changes on the receiving end.  Returns the low-water mark. */
static int change_receiver(struct flow *flow, __u64 *state, int low)
{
	__u64 least = flow->rcv_low;

	if (flow->rcv_high && one_in(state, 128)) {
		flow->rcv_does = "set buffer";
		if (flow->rcv_grows)
			least = get_buffer(flow->rcv);
		if (least < flow->rcv_high)
			set_buffer(flow->rcv, rnd_between(state, least,
							  flow->rcv_high));
	}

	if (flow->max_lowat > 1 && one_in(state, 32)) {
		flow->rcv_does = "set low-water mark";
		low = one_in(state, 4) ? 1 : rnd_size(state, flow->max_lowat);
		set_lowat(flow->rcv, low);
	}

	return low;
}

static bool receive_stream(struct flow *flow, __u64 *state, int *low,
			   unsigned char *buf)
{
	__u64 left = flow->bytes - flow->rcvd;
	const unsigned char *expected = pattern + flow->rcvd % PERIOD;
	size_t len = flow->drain || one_in(state, 2) ? MAX_CALL :
						      rnd_size(state, 64 * KIB);
	int flags = 0;
	ssize_t ret;

	if (!flow->drain) {
		*low = change_receiver(flow, state, *low);
		if (one_in(state, 16))
			flags = MSG_PEEK;
		else if (one_in(state, 16))
			flags = MSG_WAITALL;
	}

	if (flags == MSG_WAITALL) {
		/* More than the buffer holds is refused. */
		if (len > flow->rcv_min / 2)
			len = flow->rcv_min / 2;
		if (len > left)
			len = left;
	}

	/* What is still to come must be able to reach the mark. */
	if (*low > 1 && (left < 2ULL * *low ||
			 (flags == MSG_WAITALL && left < len + *low))) {
		*low = 1;
		set_lowat(flow->rcv, 1);
	}

	if (!flow->drain && one_in(state, 8)) {
		flow->rcv_does = "poll";
		wait_event(flow->rcv, POLLIN, -1);
		if (flags != MSG_WAITALL)
			flags |= MSG_DONTWAIT;
	}

	flow->rcv_does = flags & MSG_PEEK ? "peek" :
			 flags == MSG_WAITALL ? "receive all" : "receive";
	ret = recv(flow->rcv, buf, len, flags);
	if (ret <= 0 || (flags == MSG_WAITALL && ret != (ssize_t)len)) {
		flow_fail(flow, "recv of %zu, flags %#x, returns %zd: %s", len,
			  flags, ret, strerror(errno));
		return false;
	}
	if (memcmp(buf, expected, ret)) {
		flow_fail(flow, "wrong content within %zd bytes", ret);
		return false;
	}
	if (!(flags & MSG_PEEK))
		atomic_fetch_add(&flow->rcvd, ret);

	return true;
}

static bool receive_message(struct flow *flow, __u64 *state, size_t len,
			    unsigned char *buf)
{
	const unsigned char *expected = pattern + flow->rcvd % PERIOD;
	size_t room = one_in(state, 16) ? rnd_size(state, len) : MAX_CALL;
	int peek = one_in(state, 16);
	ssize_t ret;

	change_receiver(flow, state, 1);

	if (one_in(state, 8)) {
		flow->rcv_does = "poll";
		wait_event(flow->rcv, POLLIN, -1);
	}

	do {
		flow->rcv_does = peek ? "peek" : "receive";
		ret = recv(flow->rcv, buf, room,
			   MSG_TRUNC | (peek ? MSG_PEEK : 0));
		if (ret != (ssize_t)len) {
			flow_fail(flow, "message of %zu, recv returns %zd: %s",
				  len, ret, strerror(errno));
			return false;
		}
		if (memcmp(buf, expected, len < room ? len : room)) {
			flow_fail(flow, "wrong content in message of %zu", len);
			return false;
		}
	} while (peek-- > 0);

	atomic_fetch_add(&flow->rcvd, len);
	sem_post(&flow->room);
	return true;
}

static void *receiver(void *arg)
{
	struct flow *flow = arg;
	__u64 sizes = flow->seed, state = flow->seed ^ 0x5555;
	unsigned char *buf = malloc(MAX_CALL);
	unsigned long i = 0;
	bool ok = buf;
	int low = 1;

	if (!buf)
		flow_fail(flow, "no memory");

	while (ok && flow->rcvd < flow->bytes) {
		if (flow->type == SOCK_STREAM)
			ok = receive_stream(flow, &state, &low, buf);
		else
			ok = receive_message(flow, &state,
					     message_size(flow, &sizes, i++),
					     buf);
	}

	free(buf);
	flow->rcv_does = "nothing more";
	flow->rcv_done = true;
	return NULL;
}

static void start_sender(struct flow *flow)
{
	__u64 sizes = flow->seed;
	unsigned long i;

	flow->bytes = 0;
	for (i = 0; i < flow->messages; i++)
		flow->bytes += message_size(flow, &sizes, i);

	sem_init(&flow->room, 0, flow->ahead);
	flow->snd_does = "start";
	flow->rcv_does = "start";
	pthread_create(&flow->snd_thread, NULL, sender, flow);
}

static void start_receiver(struct flow *flow)
{
	pthread_create(&flow->rcv_thread, NULL, receiver, flow);
}

static void end_dump(const char *name, int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN | POLLOUT };

	poll(&pfd, 1, 0);
	printf("#   %s: buffer %llu, low-water mark %d, SIOCINQ %d, SIOCOUTQ %d, poll %#x\n",
	       name, (unsigned long long)get_buffer(fd), get_lowat(fd),
	       get_ioctl(fd, SIOCINQ), get_ioctl(fd, SIOCOUTQ), pfd.revents);
}

static void flow_dump(const struct flow *flow, int i)
{
	printf("# direction %d: %lu messages, %llu bytes, seed %#llx %s\n", i,
	       flow->messages, (unsigned long long)flow->bytes,
	       (unsigned long long)flow->seed, flow->error);
	printf("#   sent %llu, received %llu; the sender is at: %s, the receiver at: %s\n",
	       (unsigned long long)flow->sent, (unsigned long long)flow->rcvd,
	       flow->snd_does, flow->rcv_does);
	end_dump("sender", flow->snd);
	end_dump("receiver", flow->rcv);
	fflush(stdout);
}

/* End a sender whatever it waits for. */
static void kill_sender(struct flow *flow)
{
	shutdown(flow->snd, SHUT_RDWR);
	sem_post(&flow->room);
	pthread_join(flow->snd_thread, NULL);
}

static void kill_receiver(struct flow *flow)
{
	shutdown(flow->rcv, SHUT_RDWR);
	pthread_join(flow->rcv_thread, NULL);
}

/* Watch one or two directions to their end; false when they do not get there. */
static bool watch(struct flow *flow, int count)
{
	long long last_change = now_ms();
	__u64 last = 0;
	bool done, ok = true;
	int i;

	do {
		struct timespec ts = { .tv_nsec = 5000000 };
		__u64 sum = 0;

		nanosleep(&ts, NULL);
		done = true;
		for (i = 0; i < count; i++) {
			sum += flow[i].sent + flow[i].rcvd;
			done = done && flow[i].snd_done && flow[i].rcv_done;
			if (flow[i].error[0])
				ok = false;
		}
		if (sum != last) {
			last = sum;
			last_change = now_ms();
		}
		if (!done && now_ms() - last_change > STALL_MS) {
			printf("# stall: no byte in %d ms\n", STALL_MS);
			ok = false;
		}
	} while (ok && !done);

	if (!ok) {
		for (i = 0; i < count; i++)
			flow_dump(&flow[i], i);
		for (i = 0; i < count; i++) {
			kill_sender(&flow[i]);
			kill_receiver(&flow[i]);
		}
		return false;
	}

	for (i = 0; i < count; i++) {
		pthread_join(flow[i].snd_thread, NULL);
		pthread_join(flow[i].rcv_thread, NULL);
	}

	return true;
}

static bool run_flows(struct flow *flow, int count)
{
	int i;

	for (i = 0; i < count; i++) {
		start_sender(&flow[i]);
		start_receiver(&flow[i]);
	}

	return watch(flow, count);
}

/* ---------- random transfers ---------- */

static const __u64 sizes[] = {
	4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, MAX_BUFFER
};

static __u64 one_of_sizes(__u64 *state, __u64 least)
{
	__u64 size;

	do {
		size = sizes[rnd(state) % (ARRAY_SIZE(sizes))];
	} while (size < least);

	return size;
}

/* All that a session does follows from its seed. */
static bool run_session(int type, __u64 seed, unsigned long messages)
{
	__u64 state = seed, buffer[2], window;
	struct flow flow[2] = {};
	int fd[2], count = 1, i;
	int kind = rnd(&state) % 5;
	bool ok;

	switch (kind) {
	case 0:
		/* The sender's own buffer, which limits it, changes. */
		window = one_in(&state, 4) ? 256 : one_of_sizes(&state, 0);
		flow[0].snd_low = window;
		flow[0].snd_high = MAX_BUFFER;
		buffer[0] = rnd_between(&state, window, MAX_BUFFER);
		buffer[1] = one_of_sizes(&state, window);
		break;
	case 1:
		/* The sender's buffer is much smaller than the receiver's. */
		window = rnd_between(&state, 256, 64 * KIB);
		buffer[0] = window;
		buffer[1] = MAX_BUFFER;
		break;
	case 2:
		/* The receiver's buffer is much smaller than the sender's. */
		buffer[0] = MAX_BUFFER;
		window = rnd_between(&state, 4 * KIB, 64 * KIB);
		buffer[1] = window;
		break;
	case 3:
		/* Both ways: one end is fixed, the other is never smaller. */
		count = 2;
		window = one_of_sizes(&state, 4 * KIB);
		buffer[0] = window;
		buffer[1] = one_of_sizes(&state, window);
		flow[0].rcv_low = window;
		flow[0].rcv_high = MAX_BUFFER;
		flow[1].snd_low = window;
		flow[1].snd_high = MAX_BUFFER;
		break;
	default:
		/* The receiver's buffer grows, the sender's changes. */
		window = 64 * KIB;
		buffer[0] = one_of_sizes(&state, window);
		buffer[1] = one_of_sizes(&state, window);
		flow[0].snd_low = window;
		flow[0].snd_high = MAX_BUFFER;
		flow[0].rcv_low = buffer[1];
		flow[0].rcv_high = MAX_BUFFER;
		flow[0].rcv_grows = true;
		break;
	}

	if (connect_pair(type, buffer, fd))
		return false;

	for (i = 0; i < count; i++) {
		flow[i].type = type;
		flow[i].snd = fd[i];
		flow[i].rcv = fd[!i];
		flow[i].seed = rnd(&state);
		flow[i].messages = messages / count;
		flow[i].sizes = RANDOM;
		flow[i].max_msg = type == SOCK_STREAM ? 256 * KIB : window;
		flow[i].rcv_min = count == 1 ? buffer[1] : window;
		flow[i].ahead = messages_ahead(flow[i].rcv_min);
		if (window >= 64 * KIB && one_in(&state, 2)) {
			flow[i].max_lowat = type == SOCK_STREAM ? window / 4 : 1;
			flow[i].max_msg = window / 4;
		}
		if (flow[i].max_msg > 256 * KIB)
			flow[i].max_msg = 256 * KIB;
	}

	ok = run_flows(flow, count);
	if (!ok)
		printf("# session: kind %d, VSOCK_CREDIT_SEED=%#llx, buffers %llu and %llu\n",
		       kind, (unsigned long long)seed,
		       (unsigned long long)buffer[0],
		       (unsigned long long)buffer[1]);
	fflush(stdout);

	close(fd[0]);
	close(fd[1]);
	return ok;
}

FIXTURE(vsock_credit)
{
	int fd[2];
};

FIXTURE_VARIANT(vsock_credit)
{
	int type;
};

FIXTURE_VARIANT_ADD(vsock_credit, stream)
{
	.type = SOCK_STREAM,
};

FIXTURE_VARIANT_ADD(vsock_credit, seqpacket)
{
	.type = SOCK_SEQPACKET,
};

FIXTURE_SETUP(vsock_credit)
{
	const __u64 buffer[2] = { 256 * KIB, 256 * KIB };
	int err;

	pattern_init();
	err = connect_pair(variant->type, buffer, self->fd);
	if (no_loopback(err))
		SKIP(return, "no vsock loopback: %s", strerror(-err));
	ASSERT_EQ(0, err);
}

FIXTURE_TEARDOWN(vsock_credit)
{
	close(self->fd[0]);
	close(self->fd[1]);
}

TEST_F_TIMEOUT(vsock_credit, random_transfers_never_stall, CASE_TIMEOUT)
{
	const char *messages = getenv("VSOCK_CREDIT_MESSAGES");
	const char *seed = getenv("VSOCK_CREDIT_SEED");
	/* Each of the two socket types has half of them. */
	unsigned long left = (messages ? strtoul(messages, NULL, 0) :
					 MESSAGES) / 2;
	__u64 state = 7300 + variant->type;

	ASSERT_LT(0, left);
	if (seed) {
		ASSERT_TRUE(run_session(variant->type, strtoull(seed, NULL, 0),
					SESSION));
		return;
	}

	while (left) {
		unsigned long part = left < SESSION ? left : SESSION;

		ASSERT_TRUE(run_session(variant->type, rnd(&state), part));
		left -= part;
	}
}

/* ---------- one end much smaller than the other ---------- */

/* A flow whose receiver takes everything that is there with each call. */
static struct flow plain_flow(int type, const int fd[2], size_t msg,
			      unsigned long messages, __u64 rcv_buffer)
{
	struct flow flow = {
		.type = type,
		.snd = fd[0],
		.rcv = fd[1],
		.seed = msg + messages,
		.messages = messages,
		.sizes = ONE_AT_A_TIME,
		.max_msg = msg,
		.rcv_min = rcv_buffer,
		.ahead = messages_ahead(rcv_buffer),
		.drain = true,
	};

	return flow;
}

static bool drain_through(int type, __u64 snd_buffer, __u64 rcv_buffer,
			  int how, size_t msg, unsigned long messages)
{
	const __u64 buffer[2] = { snd_buffer, rcv_buffer };
	struct flow flow;
	int fd[2];
	bool ok;

	if (connect_pair(type, buffer, fd))
		return false;
	flow = plain_flow(type, fd, msg, messages, rcv_buffer);
	flow.sizes = how;
	ok = run_flows(&flow, 1);
	close(fd[0]);
	close(fd[1]);

	return ok;
}

static const __u64 windows[] = { 256, 1000, 4 * KIB, 65535, 64 * KIB,
				    65537, 256 * KIB };

TEST_F_TIMEOUT(vsock_credit, sender_buffer_smaller_drained_each_time, 120)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(windows); i++) {
		EXPECT_TRUE(drain_through(variant->type, windows[i],
					  MAX_BUFFER, ONE_AT_A_TIME,
					  windows[i], 1000));
		EXPECT_TRUE(drain_through(variant->type, windows[i],
					  MAX_BUFFER, ONE_AT_A_TIME,
					  windows[i] / 3 + 1, 1000));
	}
}

TEST_F_TIMEOUT(vsock_credit, receiver_buffer_smaller_drained_each_time, 120)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(windows); i++) {
		if (windows[i] < 4 * KIB)
			continue;
		EXPECT_TRUE(drain_through(variant->type, MAX_BUFFER,
					  windows[i], ONE_AT_A_TIME,
					  windows[i], 1000));
		EXPECT_TRUE(drain_through(variant->type, MAX_BUFFER,
					  windows[i], ONE_AT_A_TIME,
					  windows[i] / 3 + 1, 1000));
	}
}

/* A message of SOCK_SEQPACKET needs credit for all of it before it is read. */
TEST_F_TIMEOUT(vsock_credit, whole_window_after_small_message, 120)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(windows); i++) {
		EXPECT_TRUE(drain_through(variant->type, windows[i],
					  MAX_BUFFER, LARGE_AFTER_SMALL,
					  windows[i], 500));
		if (windows[i] < 4 * KIB)
			continue;
		EXPECT_TRUE(drain_through(variant->type, MAX_BUFFER,
					  windows[i], LARGE_AFTER_SMALL,
					  windows[i], 500));
	}
}

/* ---------- what changes in the middle ---------- */

/* Send @len bytes in messages of @msg, and read each of them. */
static bool pass_through(int snd, int rcv, size_t len, size_t msg)
{
	static unsigned char buf[256 * KIB];
	size_t done = 0;

	if (set_send_timeout(snd))
		return false;

	while (done < len) {
		size_t part = len - done < msg ? len - done : msg;

		if (send(snd, pattern, part, 0) != (ssize_t)part)
			return false;
		if (!wait_queued(rcv, part))
			return false;
		if (recv(rcv, buf, sizeof(buf), MSG_DONTWAIT) != (ssize_t)part ||
		    memcmp(buf, pattern, part))
			return false;
		done += part;
	}

	return true;
}

/*
 * Credit that the receiver keeps to itself is no harm while the sender has
 * enough; then the sender makes its own buffer, and so its window, smaller.
 */
TEST_F_TIMEOUT(vsock_credit, sender_shrinks_own_buffer_after_drain, 120)
{
	static const size_t passed[] = { 1, 4096, 60000, 65536, 130000, 190000 };
	const __u64 buffer[2] = { 256 * KIB, 256 * KIB };
	struct flow flow;
	unsigned int i, j;
	int fd[2];

	for (i = 0; i < ARRAY_SIZE(passed); i++) {
		for (j = 0; j < ARRAY_SIZE(windows); j++) {
			ASSERT_EQ(0, connect_pair(variant->type, buffer, fd));
			ASSERT_TRUE(pass_through(fd[0], fd[1], passed[i],
						 4096));
			ASSERT_EQ(0, set_buffer(fd[0], windows[j]));
			EXPECT_TRUE(wait_event(fd[0], POLLOUT, STALL_MS))
				TH_LOG("%zu bytes read, then a window of %llu",
				       passed[i],
				       (unsigned long long)windows[j]);
			flow = plain_flow(variant->type, fd, windows[j], 3,
					  buffer[1]);
			ASSERT_TRUE(run_flows(&flow, 1))
				TH_LOG("%zu bytes read, then a window of %llu",
				       passed[i],
				       (unsigned long long)windows[j]);
			close(fd[0]);
			close(fd[1]);
		}
	}
}

/* Wait until the sender has no credit left, and all it sent has arrived. */
static bool wait_stuck(const struct flow *flow)
{
	long long end = now_ms() + STALL_MS;
	int last = 0, same = 0;

	while (same < 3) {
		int now = get_ioctl(flow->rcv, SIOCINQ);

		same = now && now == last &&
		       !wait_event(flow->snd, POLLOUT, 0) ? same + 1 : 0;
		last = now;
		if (now_ms() > end)
			return false;
		usleep(5000);
	}

	return true;
}

TEST_F_TIMEOUT(vsock_credit, receiver_shrinks_buffer_under_full_window, 120)
{
	const __u64 buffer[2] = { 256 * KIB, 256 * KIB };
	struct flow flow;
	unsigned int i;
	int fd[2];

	for (i = 0; i < ARRAY_SIZE(windows); i++) {
		if (windows[i] < 4 * KIB)
			continue;
		ASSERT_EQ(0, connect_pair(variant->type, buffer, fd));
		flow = plain_flow(variant->type, fd, 4 * KIB, 500, windows[i]);
		flow.ahead = messages_ahead(buffer[1]);
		flow.drain = false;
		start_sender(&flow);
		ASSERT_TRUE(wait_stuck(&flow));

		/* Negative credit for the sender, but no data on its way. */
		ASSERT_EQ(0, set_buffer(fd[1], windows[i]));
		start_receiver(&flow);
		ASSERT_TRUE(watch(&flow, 1))
			TH_LOG("shrunk to %llu", (unsigned long long)windows[i]);

		/* And back again. */
		ASSERT_EQ(0, set_buffer(fd[1], buffer[1]));
		flow = plain_flow(variant->type, fd, windows[i], 20, windows[i]);
		ASSERT_TRUE(run_flows(&flow, 1))
			TH_LOG("grown from %llu", (unsigned long long)windows[i]);
		close(fd[0]);
		close(fd[1]);
	}
}

TEST_F_TIMEOUT(vsock_credit, full_window_drained_sender_goes_on, 120)
{
	unsigned char *buf = malloc(MAX_CALL);
	int i, shift, left;
	struct flow flow;
	ssize_t ret;

	ASSERT_NE(NULL, buf);
	for (shift = 10; shift < 18; shift++) {
		const __u64 buffer[2] = { 256 * KIB, 256 * KIB };
		int fd[2];

		ASSERT_EQ(0, connect_pair(variant->type, buffer, fd));
		/* More than will be read. */
		flow = plain_flow(variant->type, fd, 1 << shift,
				  (16 * MIB) >> shift, 2 * buffer[1]);
		start_sender(&flow);
		for (i = 0; i < 5; i++) {
			ASSERT_TRUE(wait_stuck(&flow))
				TH_LOG("messages of %d, round %d", 1 << shift,
				       i);
			/* A message that is cut off stays. */
			left = get_ioctl(fd[1], SIOCINQ) >> shift << shift;
			while (left > 0) {
				ret = recv(fd[1], buf, 1 << shift,
					   MSG_DONTWAIT);
				ASSERT_LT(0, ret);
				sem_post(&flow.room);
				left -= ret;
			}
		}
		kill_sender(&flow);
		close(fd[0]);
		close(fd[1]);
	}
	free(buf);
}

/* The mark is to be reached by messages of @msg that a thread sends. */
static bool low_water_mark_reached(int type, const int fd[2], size_t msg,
				   unsigned long messages, __u64 buffer)
{
	struct flow flow = plain_flow(type, fd, msg, messages, buffer);
	bool ok;

	start_sender(&flow);
	ok = wait_event(fd[1], POLLIN, STALL_MS);
	if (!ok)
		flow_dump(&flow, 0);
	kill_sender(&flow);

	return ok;
}

static const size_t passed_before[] = { 1, 4096, 60000, 130000, 190000 };
static const int low_marks[] = { 1000, 65536, 131072, 200000, 262143 };

/* The receiver has read all, kept the credit, and now wants more at once. */
TEST_F_TIMEOUT(vsock_credit, low_water_mark_raised_after_drain, 120)
{
	const __u64 buffer[2] = { 256 * KIB, 256 * KIB };
	unsigned int i, j;
	int fd[2];

	for (i = 0; i < ARRAY_SIZE(passed_before); i++) {
		for (j = 0; j < ARRAY_SIZE(low_marks); j++) {
			ASSERT_EQ(0, connect_pair(variant->type, buffer, fd));
			ASSERT_TRUE(pass_through(fd[0], fd[1],
						 passed_before[i], 4096));
			ASSERT_EQ(0, set_lowat(fd[1], low_marks[j]));
			EXPECT_TRUE(low_water_mark_reached(variant->type, fd,
							   low_marks[j], 1,
							   buffer[1]))
				TH_LOG("%zu bytes read, then a mark of %d",
				       passed_before[i], low_marks[j]);
			close(fd[0]);
			close(fd[1]);
		}
	}
}

/*
 * The mark is there from the start, each message is read when it comes, and
 * then the receiver waits for poll: for messages as well as for a stream.
 */
TEST_F_TIMEOUT(vsock_credit, low_water_mark_kept_during_transfer, 120)
{
	const __u64 buffer[2] = { 256 * KIB, 256 * KIB };
	unsigned int i, j;
	int fd[2];

	for (i = 0; i < ARRAY_SIZE(passed_before); i++) {
		for (j = 0; j < ARRAY_SIZE(low_marks); j++) {
			ASSERT_EQ(0, connect_pair(variant->type, buffer, fd));
			ASSERT_EQ(0, set_lowat(fd[1], low_marks[j]));
			ASSERT_TRUE(pass_through(fd[0], fd[1],
						 passed_before[i], 4096));
			EXPECT_TRUE(low_water_mark_reached(variant->type, fd,
							   4096, 64,
							   buffer[1]))
				TH_LOG("%zu bytes read with a mark of %d",
				       passed_before[i], low_marks[j]);
			close(fd[0]);
			close(fd[1]);
		}
	}
}

/* ---------- how many credit updates ---------- */

static bool next_edge(int epfd, int ms)
{
	struct epoll_event event;

	return epoll_wait(epfd, &event, 1, ms) == 1;
}

/*
 * Each credit update wakes writers, which an edge-triggered epoll instance on
 * the sender can count.  So does the delivery of a packet: that edge is there
 * when the receiver has the data, and is taken first.
 */
static int count_updates(int snd, int rcv, int messages, size_t len)
{
	struct epoll_event event = { .events = EPOLLOUT | EPOLLET };
	static unsigned char buf[64 * KIB];
	int epfd = epoll_create1(0);
	int i, count = 0;

	if (epfd < 0 || epoll_ctl(epfd, EPOLL_CTL_ADD, snd, &event))
		return -1;

	for (i = 0; i < messages; i++) {
		if (send(snd, pattern, len, 0) != (ssize_t)len ||
		    !wait_queued(rcv, len))
			return -1;
		while (next_edge(epfd, 0))
			;
		if (recv(rcv, buf, sizeof(buf), 0) != (ssize_t)len)
			return -1;
		count += next_edge(epfd, 20);
	}

	close(epfd);
	return count;
}

/*
 * 20 messages of 4 KiB leave the peer most of its 256 KiB: it needs to hear
 * nothing while the queue is drained each time.
 */
TEST_F_TIMEOUT(vsock_credit, no_update_while_peer_has_credit, 60)
{
	/* A sixteenth of 256 KiB, the least that any kind of socket puts off. */
	int count = count_updates(self->fd[0], self->fd[1], 4, 4096);

	EXPECT_EQ(0, count);
}

TEST_F_TIMEOUT(vsock_credit, update_before_peer_runs_out, 60)
{
	int count = count_updates(self->fd[0], self->fd[1], 100, 4096);

	/* 400 KiB pass through 256 KiB: once is not enough. */
	EXPECT_LT(1, count);
	EXPECT_GT(50, count);
}

/*
 * Same for a sender whose own buffer is the smaller one: its window is that,
 * however large the receiver's buffer is.
 */
TEST_F_TIMEOUT(vsock_credit, update_before_small_sender_runs_out, 60)
{
	const __u64 buffer[2] = { 64 * KIB, MAX_BUFFER };
	int fd[2];

	ASSERT_EQ(0, connect_pair(variant->type, buffer, fd));
	EXPECT_LT(1, count_updates(fd[0], fd[1], 40, 4096));
	close(fd[0]);
	close(fd[1]);
}

/* ---------- packets, as a vsockmon device sees them ---------- */

#define MONITOR		"vsockmon-inq"

struct link_request {
	struct nlmsghdr hdr;
	struct ifinfomsg info;
	char attrs[128];
};

static void add_attr(struct link_request *req, int type, const char *val,
		     size_t len)
{
	struct rtattr *attr = (void *)req + NLMSG_ALIGN(req->hdr.nlmsg_len);

	attr->rta_type = type;
	attr->rta_len = RTA_LENGTH(len);
	if (len)
		memcpy(RTA_DATA(attr), val, len);
	req->hdr.nlmsg_len = NLMSG_ALIGN(req->hdr.nlmsg_len) + RTA_SPACE(len);
}

static int link_talk(struct link_request *req)
{
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	struct {
		struct nlmsghdr hdr;
		struct nlmsgerr err;
		char rest[512];
	} answer;
	int ret = -1;

	if (fd < 0)
		return -errno;

	if (send(fd, req, req->hdr.nlmsg_len, 0) > 0 &&
	    recv(fd, &answer, sizeof(answer), 0) > 0 &&
	    answer.hdr.nlmsg_type == NLMSG_ERROR)
		ret = answer.err.error;
	close(fd);

	return ret;
}

static int monitor_add(void)
{
	struct link_request req = {
		.hdr = {
			.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
			.nlmsg_type = RTM_NEWLINK,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK |
				       NLM_F_CREATE | NLM_F_EXCL,
		},
		.info = {
			.ifi_flags = IFF_UP,
			.ifi_change = IFF_UP,
		},
	};
	struct rtattr *nest;

	add_attr(&req, IFLA_IFNAME, MONITOR, sizeof(MONITOR));
	nest = (void *)&req + NLMSG_ALIGN(req.hdr.nlmsg_len);
	add_attr(&req, IFLA_LINKINFO, NULL, 0);
	add_attr(&req, IFLA_INFO_KIND, "vsockmon", strlen("vsockmon"));
	nest->rta_len = (void *)&req + req.hdr.nlmsg_len - (void *)nest;

	return link_talk(&req);
}

static void monitor_del(void)
{
	struct link_request req = {
		.hdr = {
			.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
			.nlmsg_type = RTM_DELLINK,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
		},
	};

	add_attr(&req, IFLA_IFNAME, MONITOR, sizeof(MONITOR));
	link_talk(&req);
}

/* Packets that the device has counted, -1 without the device. */
static long monitor_packets(void)
{
	FILE *file = fopen("/proc/net/dev", "r");
	char line[256], name[64];
	long packets = -1, val;

	if (!file)
		return -1;

	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, " %63[^:]: %*u %ld", name, &val) == 2 &&
		    !strcmp(name, MONITOR))
			packets = val;
	}
	fclose(file);

	return packets;
}

/* A request and its answer, each read whole: two packets. */
TEST_F_TIMEOUT(vsock_credit, packets_of_a_round_trip, 60)
{
	const int rounds = 100;
	long before, packets;
	int i, err;

	err = monitor_add();
	if (err == -EOPNOTSUPP || err == -EPERM)
		SKIP(return, "no vsockmon device: %s", strerror(-err));
	ASSERT_EQ(0, err);

	before = monitor_packets();
	ASSERT_LE(0, before);
	for (i = 0; i < rounds; i++) {
		ASSERT_TRUE(pass_through(self->fd[0], self->fd[1], 4096, 4096));
		ASSERT_TRUE(pass_through(self->fd[1], self->fd[0], 4096, 4096));
	}
	/* Let the last of them arrive. */
	usleep(50000);
	packets = monitor_packets() - before;
	monitor_del();

	TH_LOG("%ld packets in %d round trips", packets, rounds);
	EXPECT_LE(2 * rounds, packets);
	EXPECT_GE(2 * rounds + 10, packets);
}

TEST_HARNESS_MAIN
