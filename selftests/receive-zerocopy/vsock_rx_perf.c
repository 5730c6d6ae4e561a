// SPDX-License-Identifier: GPL-2.0-only
/*
 * Price of a stream of bytes received over vsock, copied or mapped.
 *
 * The client sends, the server receives: by poll() and recv(), or with
 * --zerocopy by poll() and getsockopt(SO_VM_SOCKETS_ZEROCOPY) into a mapping
 * of the socket.  Either way the server asks the same question before each
 * call, looks at the same words of what it received, and tells the client at
 * the end how many bytes there were.
 *
 * What is sent is a function of the place in the stream: a few words of
 * each page depend on their offset, so that bytes lost, repeated or swapped
 * show.
 */

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/vm_sockets.h>
#include <linux/virtio_vsock.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define PAGE		4096UL
#define MIB		(1024UL * 1024)
#define MAX_PAGES	65536UL
#define MAX_MIB		(1024UL * 1024)
#define DEFAULT_PORT	1234
#define DEFAULT_BUFFER	(256UL * 1024)	/* the kernel's own */

#define EXIT_DATA	1	/* what arrived is not what was sent */
#define EXIT_CALL	2	/* a system call failed, the peer went away */
#define EXIT_USAGE	3

enum mode { MODE_NONE, MODE_CLIENT, MODE_SERVER, MODE_LOOPBACK };

static struct {
	enum mode mode;
	bool zerocopy;
	bool json;
	bool check;
	bool lowat;
	int type;
	bool have_cid;
	unsigned int cid;
	unsigned int port;
	unsigned long mb;
	unsigned long tx;
	unsigned long rx;
	unsigned long buffer;
	unsigned long timeout;
} opt = {
	.check = true,
	.type = SOCK_STREAM,
	.port = DEFAULT_PORT,
	.mb = 64,
	.tx = 16,
	.rx = 64,
	.timeout = 60,
};

struct result {
	__u64 bytes;
	__u64 copied;
	__u64 calls;		/* recv(), getsockopt() or send() */
	__u64 headers;
	__u64 words;		/* looked at */
	__u64 wall_ns;
	__u64 cpu_ns;
};

static void __noreturn __printf(2, 3) fail(int code, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "vsock_rx_perf: ");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(code);
}

static void __noreturn fail_call(const char *call)
{
	fail(EXIT_CALL, "%s: %s", call, strerror(errno));
}

static __u64 now(clockid_t clock)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts))
		fail_call("clock_gettime");
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* ------------------------------------------------------------------ */
/* What is sent                                                        */

/* Offsets in a page, ascending: its first, its last and a middle word. */
static const unsigned int places[] = { 0, 2040, 4088 };

static __u64 word_at(__u64 offset)
{
	return (offset + 1) * 0x9e3779b97f4a7c15ULL;
}

/* @offset is the start of a page, in the stream and in @buf */
static void stamp(char *buf, size_t len, __u64 offset)
{
	unsigned int i;
	__u64 word;
	size_t pos;

	for (pos = 0; pos < len; pos += PAGE) {
		for (i = 0; i < ARRAY_SIZE(places); i++) {
			word = word_at(offset + pos + places[i]);
			memcpy(buf + pos + places[i], &word, sizeof(word));
		}
	}
}

/* Words that @data holds in part only are left out. */
static void check(const char *data, size_t len, __u64 offset,
		  struct result *r)
{
	__u64 page, at, word;
	unsigned int i;

	for (page = offset & ~(PAGE - 1); page < offset + len; page += PAGE) {
		for (i = 0; i < ARRAY_SIZE(places); i++) {
			at = page + places[i];
			if (at < offset)
				continue;
			if (at + sizeof(word) > offset + len)
				break;
			memcpy(&word, data + (at - offset), sizeof(word));
			if (word != word_at(at))
				fail(EXIT_DATA, "wrong data at byte %llu",
				     at);
			r->words++;
		}
	}
}

/* ------------------------------------------------------------------ */
/* Sockets                                                             */

static int make_socket(void)
{
	__u64 size = opt.buffer;
	int fd;

	fd = socket(AF_VSOCK, opt.type, 0);
	if (fd < 0)
		fail_call("socket(AF_VSOCK)");
	if (setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_MAX_SIZE, &size,
		       sizeof(size)))
		fail_call("setsockopt(SO_VM_SOCKETS_BUFFER_MAX_SIZE)");
	if (setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_BUFFER_SIZE, &size,
		       sizeof(size)))
		fail_call("setsockopt(SO_VM_SOCKETS_BUFFER_SIZE)");
	return fd;
}

static void opt_in(int fd)
{
	int on = 1;

	if (setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY, &on, sizeof(on)))
		fail_call("setsockopt(SO_VM_SOCKETS_ZEROCOPY)");
}

static int start_listening(struct sockaddr_vm *addr)
{
	socklen_t len = sizeof(*addr);
	int fd = make_socket();

	*addr = (struct sockaddr_vm){
		.svm_family = AF_VSOCK,
		.svm_cid = VMADDR_CID_ANY,
		.svm_port = opt.mode == MODE_LOOPBACK ? VMADDR_PORT_ANY :
							opt.port,
	};
	if (bind(fd, (struct sockaddr *)addr, sizeof(*addr)))
		fail(EXIT_CALL, "bind to port %u: %s", opt.port,
		     strerror(errno));
	if (getsockname(fd, (struct sockaddr *)addr, &len))
		fail_call("getsockname");
	if (opt.zerocopy)
		opt_in(fd);	/* so is what it accepts, from the start */
	if (listen(fd, 1))
		fail_call("listen");
	return fd;
}

/* A timeout of poll() would be part of what is measured. */
static void wait_readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN | POLLRDHUP };
	int ret;

	do {
		ret = poll(&pfd, 1, -1);
	} while (ret < 0 && errno == EINTR);
	if (ret < 0)
		fail_call("poll");
	if (pfd.revents & POLLNVAL)
		fail(EXIT_CALL, "poll: not a socket");
}

/* ------------------------------------------------------------------ */
/* Client                                                              */

static void send_all(int fd, const char *buf, size_t len, struct result *r)
{
	ssize_t ret;

	while (len) {
		ret = send(fd, buf, len, MSG_NOSIGNAL);
		if (ret < 0 && errno == EINTR)
			continue;
		if (ret < 0)
			fail_call("send");
		r->calls++;
		r->bytes += ret;
		buf += ret;
		len -= ret;
	}
}

/* The server's last word is how many bytes it received. */
static __u64 read_answer(int fd)
{
	__u64 answer;
	ssize_t ret;

	wait_readable(fd);
	ret = recv(fd, &answer, sizeof(answer), 0);
	if (ret < 0)
		fail_call("recv of the server's answer");
	if (ret != sizeof(answer))
		fail(EXIT_CALL, "the server went away");
	return answer;
}

static void run_client(unsigned int cid, unsigned int port, struct result *r)
{
	struct sockaddr_vm addr = {
		.svm_family = AF_VSOCK,
		.svm_cid = cid,
		.svm_port = port,
	};
	__u64 total = opt.mb * MIB, answer, start, cpu;
	size_t len = opt.tx * PAGE, part;
	int fd = make_socket();
	char *buf;

	buf = mmap(NULL, len, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (buf == MAP_FAILED)
		fail_call("mmap of the buffer");
	memset(buf, 0xa5, len);

	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		fail(EXIT_CALL, "connect to %u:%u: %s", cid, port,
		     strerror(errno));
	start = now(CLOCK_MONOTONIC);
	cpu = now(CLOCK_THREAD_CPUTIME_ID);
	while (r->bytes < total) {
		part = total - r->bytes < len ? total - r->bytes : len;
		stamp(buf, part, r->bytes);
		send_all(fd, buf, part, r);
	}
	r->cpu_ns = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
	if (shutdown(fd, SHUT_WR))
		fail_call("shutdown");
	answer = read_answer(fd);
	r->wall_ns = now(CLOCK_MONOTONIC) - start;
	if (answer != r->bytes)
		fail(EXIT_DATA,
		     "the server received %llu bytes of %llu",
		     answer, r->bytes);
	close(fd);
}

/* ------------------------------------------------------------------ */
/* Server                                                              */

static void receive_copy(int fd, char *buf, size_t size, struct result *r)
{
	int flags = opt.type == SOCK_SEQPACKET ? MSG_TRUNC : 0;
	ssize_t ret;

	for (;;) {
		wait_readable(fd);
		ret = recv(fd, buf, size, flags);
		if (ret < 0 && errno == EINTR)
			continue;
		if (ret < 0)
			fail_call("recv");
		r->calls++;
		if (!ret)
			return;
		if ((size_t)ret > size)
			fail(EXIT_CALL,
			     "a message of %zd bytes is larger than --rx", ret);
		if (opt.check)
			check(buf, ret, r->bytes, r);
		r->bytes += ret;
		r->copied += ret;
	}
}

/* Walk over what one call has received. */
static void take_mapped(const char *map, size_t size,
			const struct vm_sockets_zerocopy *arg,
			struct result *r)
{
	const struct virtio_vsock_usr_hdr *hdr = (const void *)map;
	__u64 bytes = 0, copied = 0;
	size_t pos = PAGE;
	unsigned int i;

	if (arg->headers > PAGE / sizeof(*hdr))
		fail(EXIT_DATA, "%u headers in one page", arg->headers);
	for (i = 0; i < arg->headers; i++) {
		if (hdr[i].len > size - pos)
			fail(EXIT_DATA,
			     "header %u of %u: %u bytes at %zu of %zu", i,
			     arg->headers, hdr[i].len, pos, size);
		if (opt.check)
			check(map + pos, hdr[i].len, r->bytes + bytes, r);
		bytes += hdr[i].len;
		if (hdr[i].flags & VIRTIO_VSOCK_USR_COPIED)
			copied += hdr[i].len;
		pos += (hdr[i].len + PAGE - 1) & ~(PAGE - 1);
	}
	if (bytes != arg->bytes)
		fail(EXIT_DATA,
		     "headers of %llu bytes, the call said %llu",
		     bytes, (unsigned long long)arg->bytes);
	if (copied != arg->copied)
		fail(EXIT_DATA,
		     "headers of %llu copied bytes, the call said %llu",
		     copied, (unsigned long long)arg->copied);
	r->bytes += bytes;
	r->copied += copied;
	r->headers += arg->headers;
}

static void receive_mapped(int fd, char *map, size_t size, struct result *r)
{
	struct vm_sockets_zerocopy arg;
	socklen_t len;

	for (;;) {
		wait_readable(fd);
		memset(&arg, 0, sizeof(arg));
		arg.address = (unsigned long)map;
		arg.length = size;
		len = sizeof(arg);
		if (getsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY, &arg,
			       &len))
			fail_call("getsockopt(SO_VM_SOCKETS_ZEROCOPY)");
		r->calls++;
		if (arg.error) {
			errno = arg.error;
			fail_call("pending error of the socket");
		}
		take_mapped(map, size, &arg, r);
		if (arg.status & VM_SOCKETS_ZEROCOPY_FINISHED)
			return;
	}
}

static void set_lowat(int fd)
{
	int bytes = opt.rx * PAGE;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes)))
		fail_call("setsockopt(SO_RCVLOWAT)");
}

static void run_server(int listener, struct result *r)
{
	size_t size = (opt.rx + opt.zerocopy) * PAGE;
	__u64 start, cpu;
	char *buf;
	int fd;

	wait_readable(listener);
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		fail_call("accept");
	if (opt.lowat)
		set_lowat(fd);
	if (opt.zerocopy)
		buf = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	else
		buf = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (buf == MAP_FAILED)
		fail_call("mmap");

	start = now(CLOCK_MONOTONIC);
	cpu = now(CLOCK_THREAD_CPUTIME_ID);
	if (opt.zerocopy)
		receive_mapped(fd, buf, size, r);
	else
		receive_copy(fd, buf, size, r);
	r->cpu_ns = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
	r->wall_ns = now(CLOCK_MONOTONIC) - start;

	if (send(fd, &r->bytes, sizeof(r->bytes), MSG_NOSIGNAL) !=
	    sizeof(r->bytes))
		fail_call("send of the answer");
	if (munmap(buf, size))
		fail_call("munmap");
	close(fd);
}

/* Both ends in one place: the child sends. */
static void run_loopback(struct result *r)
{
	struct result sent = { };
	struct sockaddr_vm addr;
	int listener, status;
	pid_t pid;

	listener = start_listening(&addr);
	pid = fork();
	if (pid < 0)
		fail_call("fork");
	if (!pid) {
		alarm(opt.timeout);
		close(listener);
		run_client(VMADDR_CID_LOCAL, addr.svm_port, &sent);
		exit(0);
	}
	run_server(listener, r);
	if (waitpid(pid, &status, 0) != pid)
		fail_call("waitpid");
	if (!WIFEXITED(status))
		fail(EXIT_CALL, "the client was killed");
	if (WEXITSTATUS(status))
		exit(WEXITSTATUS(status));
	if (r->bytes != opt.mb * MIB)
		fail(EXIT_DATA, "%llu bytes received of %lu", r->bytes,
		     opt.mb * MIB);
}

/* ------------------------------------------------------------------ */

static void report(const struct result *r)
{
	bool client = opt.mode == MODE_CLIENT;
	const char *how = client ? "send" : opt.zerocopy ? "zerocopy" : "copy";
	const char *type = opt.type == SOCK_STREAM ? "stream" : "seqpacket";
	double seconds = r->wall_ns / 1e9, share = 0, gbits = 0;

	if (r->bytes)
		share = 100.0 * r->copied / r->bytes;
	if (r->wall_ns)
		gbits = 8.0 * r->bytes / r->wall_ns;

	if (opt.json) {
		printf("{\"how\": \"%s\", \"type\": \"%s\", ", how, type);
		if (opt.mode != MODE_SERVER)
			printf("\"tx\": %lu, ", opt.tx);
		if (!client) {
			printf("\"rx\": %lu, \"lowat\": %s, ", opt.rx,
			       opt.lowat ? "true" : "false");
			printf("\"copied\": %llu, ", r->copied);
			printf("\"copied_percent\": %.2f, ", share);
			printf("\"headers\": %llu, ", r->headers);
			printf("\"words_checked\": %llu, ", r->words);
		}
		printf("\"buffer\": %lu, ", opt.buffer);
		printf("\"bytes\": %llu, ", r->bytes);
		printf("\"calls\": %llu, ", r->calls);
		printf("\"seconds\": %.9f, \"gbits\": %.3f, ", seconds,
		       gbits);
		printf("\"cpu_seconds\": %.9f}\n", r->cpu_ns / 1e9);
		return;
	}

	printf("%s, %s", client ? "sent" : opt.zerocopy ? "mapped" : "copied",
	       type);
	if (opt.mode != MODE_SERVER)
		printf(", %lu pages a send()", opt.tx);
	if (!client)
		printf(", %lu pages a call at most", opt.rx);
	printf("\nbytes      %llu\n", r->bytes);
	printf("seconds    %.6f\n", seconds);
	printf("Gbit/s     %.3f\n", gbits);
	printf("calls      %llu, %.0f bytes each\n", r->calls,
	       r->calls ? (double)r->bytes / r->calls : 0);
	if (!client)
		printf("copied     %.1f %%\n", share);
	if (opt.zerocopy && !client)
		printf("headers    %llu\n", r->headers);
	printf("CPU time   %.6f s (%s)\n", r->cpu_ns / 1e9,
	       client ? "sender" : "receiver");
	if (!client)
		printf("checked    %llu words\n", r->words);
}

static void usage(FILE *f)
{
	fprintf(f, "vsock_rx_perf --mode client|server|loopback [options]\n"
		"What it costs to receive a stream over vsock, copied or mapped.\n"
		"\n"
		"  --mode MODE     client: connect and send; server: wait for one client and\n"
		"                  receive; loopback: both, by way of the local CID\n"
		"  --zerocopy      server: map what arrives instead of copying it\n"
		"  --cid CID       client: where the server is\n"
		"  --port PORT     (%u)\n"
		"  --mb MIB        client: how much to send (%lu)\n"
		"  --tx PAGES      client: 4 KiB pages in a send() (%lu)\n"
		"  --rx PAGES      server: pages of the buffer; with --zerocopy the mapping has\n"
		"                  one more, for the headers (%lu)\n"
		"  --lowat         server: wait until the buffer can be filled (SO_RCVLOWAT)\n"
		"  --buffer KIB    socket buffer (twice the larger of --tx and --rx, at least %lu)\n"
		"  --seqpacket     SOCK_SEQPACKET; one send() is one message\n"
		"  --no-check      server: do not look at the data, only count it\n"
		"  --timeout SEC   how long it may take in all (%lu)\n"
		"  --json          one line of JSON instead of text\n"
		"  --help\n"
		"\n"
		"For the same buffer on both ends give both the same --tx and --rx.\n"
		"Exit status: 0 all was received, %d wrong data or count, %d a call failed,\n"
		"%d wrong options.\n",
		opt.port, opt.mb, opt.tx, opt.rx, DEFAULT_BUFFER / 1024,
		opt.timeout, EXIT_DATA, EXIT_CALL, EXIT_USAGE);
}

static unsigned long number(const char *name, const char *s, unsigned long min,
			    unsigned long max)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(s, &end, 10);
	if (errno || end == s || *end || *s == '-' || value < min ||
	    value > max)
		fail(EXIT_USAGE, "--%s is from %lu to %lu, not %s",
		     name, min, max, s);
	return value;
}

static enum mode mode_of(const char *s)
{
	if (!strcmp(s, "client"))
		return MODE_CLIENT;
	if (!strcmp(s, "server"))
		return MODE_SERVER;
	if (!strcmp(s, "loopback"))
		return MODE_LOOPBACK;
	fail(EXIT_USAGE, "--mode is client, server or loopback, not %s", s);
}

static void parse(int argc, char **argv)
{
	static const struct option longopts[] = {
		{ "mode", required_argument, NULL, 'm' },
		{ "zerocopy", no_argument, NULL, 'z' },
		{ "cid", required_argument, NULL, 'c' },
		{ "port", required_argument, NULL, 'p' },
		{ "mb", required_argument, NULL, 'M' },
		{ "tx", required_argument, NULL, 't' },
		{ "rx", required_argument, NULL, 'r' },
		{ "lowat", no_argument, NULL, 'l' },
		{ "buffer", required_argument, NULL, 'b' },
		{ "seqpacket", no_argument, NULL, 's' },
		{ "no-check", no_argument, NULL, 'n' },
		{ "timeout", required_argument, NULL, 'T' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ },
	};
	unsigned long least;
	int c, index;

	while ((c = getopt_long(argc, argv, "", longopts, &index)) != -1) {
		const char *name = c == '?' ? NULL : longopts[index].name;

		switch (c) {
		case 'm':
			opt.mode = mode_of(optarg);
			break;
		case 'z':
			opt.zerocopy = true;
			break;
		case 'c':
			opt.cid = number(name, optarg, 0, UINT_MAX - 1);
			opt.have_cid = true;
			break;
		case 'p':
			opt.port = number(name, optarg, 0, UINT_MAX - 1);
			break;
		case 'M':
			opt.mb = number(name, optarg, 1, MAX_MIB);
			break;
		case 't':
			opt.tx = number(name, optarg, 1, MAX_PAGES);
			break;
		case 'r':
			opt.rx = number(name, optarg, 1, MAX_PAGES);
			break;
		case 'l':
			opt.lowat = true;
			break;
		case 'b':
			opt.buffer = number(name, optarg, 4, 1024 * 1024) * 1024;
			break;
		case 's':
			opt.type = SOCK_SEQPACKET;
			break;
		case 'n':
			opt.check = false;
			break;
		case 'T':
			opt.timeout = number(name, optarg, 1, 86400);
			break;
		case 'j':
			opt.json = true;
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			fail(EXIT_USAGE, "see --help");
		}
	}
	if (optind != argc)
		fail(EXIT_USAGE, "unknown argument %s", argv[optind]);
	if (opt.mode == MODE_NONE)
		fail(EXIT_USAGE, "--mode is missing, see --help");
	if (opt.mode == MODE_CLIENT && !opt.have_cid)
		fail(EXIT_USAGE, "--mode client wants --cid");
	if (opt.mode != MODE_CLIENT && opt.have_cid)
		fail(EXIT_USAGE, "--cid goes with --mode client");
	if (opt.mode == MODE_CLIENT && (opt.zerocopy || opt.lowat))
		fail(EXIT_USAGE, "--zerocopy and --lowat are the server's");
	if (!opt.buffer) {
		least = opt.tx > opt.rx ? opt.tx : opt.rx;
		opt.buffer = 2 * least * PAGE;
		if (opt.buffer < DEFAULT_BUFFER)
			opt.buffer = DEFAULT_BUFFER;
	}
	if (opt.lowat && opt.rx * PAGE > opt.buffer)
		fail(EXIT_USAGE, "--lowat: --rx is more than the buffer holds");
}

static void on_alarm(int sig)
{
	static const char text[] = "vsock_rx_perf: no end in time\n";
	ssize_t ret = write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)ret;
	_exit(EXIT_CALL);
}

int main(int argc, char **argv)
{
	struct result r = { };
	struct sockaddr_vm addr;
	int listener;

	parse(argc, argv);
	signal(SIGALRM, on_alarm);
	alarm(opt.timeout);
	switch (opt.mode) {
	case MODE_CLIENT:
		run_client(opt.cid, opt.port, &r);
		break;
	case MODE_SERVER:
		listener = start_listening(&addr);
		fprintf(stderr, "listening on port %u\n", addr.svm_port);
		run_server(listener, &r);
		break;
	default:
		run_loopback(&r);
	}
	report(&r);
	if (fflush(stdout))
		fail_call("write of the report");
	return 0;
}
