/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A socket behind a dummy device, and a TCP peer that is played by the program
 * itself: it writes acknowledgments into a tun device. zc_bench.c tells why.
 */

#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define MSS		1400	/* of UDP's segments, too */
#define WSCALE		14
#define WINDOW		0xffff
#define SEQ		1000	/* first byte of the program's */
#define PEER_SEQ	2000	/* and of the peer's */
#define PORT		8000

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

/* ------------------------------------------------------------------ */
/* The peer of a TCP connection                                        */

static struct {
	int tun;
	size_t ip_len;
	char packet[60];	/* IP and TCP header */
	struct tcphdr *tcp;
	uint32_t sum;		/* of all but the sequence number acknowledged */
	uint32_t acked;
} peer;

static uint32_t add_words(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint32_t sum = 0;
	size_t i;

	for (i = 0; i < len; i += 2)
		sum += p[i] << 8 | p[i + 1];
	return sum;
}

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons(~sum);
}

static void peer_open(int family, const struct sockaddr_storage *me,
		      const struct sockaddr_storage *to)
{
	struct ifreq ifr = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	bool v6 = family == AF_INET6;
	uint8_t *ip = (uint8_t *)peer.packet;
	size_t addr_len = v6 ? 16 : 4;
	int s;

	peer.tun = open("/dev/net/tun", O_RDWR);
	if (peer.tun < 0)
		err(1, "/dev/net/tun");
	strcpy(ifr.ifr_name, "zcpeer0");
	if (ioctl(peer.tun, TUNSETIFF, &ifr))
		err(1, "TUNSETIFF");
	s = socket(AF_INET, SOCK_DGRAM, 0);
	if (s < 0 || ioctl(s, SIOCGIFFLAGS, &ifr))
		err(1, "SIOCGIFFLAGS");
	ifr.ifr_flags |= IFF_UP;
	if (ioctl(s, SIOCSIFFLAGS, &ifr))
		err(1, "SIOCSIFFLAGS");
	close(s);

	peer.ip_len = v6 ? 40 : 20;
	peer.tcp = (struct tcphdr *)(ip + peer.ip_len);
	if (v6) {
		ip[0] = 0x60;
		ip[5] = sizeof(*peer.tcp);
		ip[6] = IPPROTO_TCP;
		ip[7] = 64;
		memcpy(ip + 8, &((struct sockaddr_in6 *)to)->sin6_addr, 16);
		memcpy(ip + 24, &((struct sockaddr_in6 *)me)->sin6_addr, 16);
	} else {
		uint16_t check;

		ip[0] = 0x45;
		ip[3] = peer.ip_len + sizeof(*peer.tcp);
		ip[8] = 64;
		ip[9] = IPPROTO_TCP;
		memcpy(ip + 12, &((struct sockaddr_in *)to)->sin_addr, 4);
		memcpy(ip + 16, &((struct sockaddr_in *)me)->sin_addr, 4);
		check = fold(add_words(ip, 20));
		memcpy(ip + 10, &check, sizeof(check));
	}
	peer.tcp->source = htons(PORT);
	peer.tcp->dest = htons(PORT + 1);
	peer.tcp->seq = htonl(PEER_SEQ);
	peer.tcp->doff = sizeof(*peer.tcp) / 4;
	peer.tcp->ack = 1;
	peer.tcp->window = htons(WINDOW);
	peer.sum = add_words(peer.tcp, sizeof(*peer.tcp)) +
		   add_words(ip + peer.ip_len - 2 * addr_len, 2 * addr_len) +
		   IPPROTO_TCP + sizeof(*peer.tcp);
	peer.acked = SEQ;
}

static void peer_ack(size_t len)
{
	size_t total = peer.ip_len + sizeof(*peer.tcp);

	peer.acked += len;
	peer.tcp->ack_seq = htonl(peer.acked);
	peer.tcp->check = fold(peer.sum + (peer.acked >> 16) +
			       (peer.acked & 0xffff));
	if (write(peer.tun, peer.packet, total) != (ssize_t)total)
		err(1, "write to the tun device");
}

/* What the next acknowledgment says, in units of 16 KiB. */
static inline void peer_window(uint16_t window)
{
	peer.sum += window - ntohs(peer.tcp->window);
	peer.tcp->window = htons(window);
}

static int outstanding(int fd)
{
	int n;

	if (ioctl(fd, SIOCOUTQ, &n))
		err(1, "SIOCOUTQ");
	return n;
}

/* Bytes that are sent and not acknowledged. */
static int in_flight(int fd)
{
	int unsent;

	if (ioctl(fd, SIOCOUTQNSD, &unsent))
		err(1, "SIOCOUTQNSD");
	return outstanding(fd) - unsent;
}

/*
 * Acknowledges what was sent until nothing is left: the congestion window lets
 * out a part. @window: what the last acknowledgment says.
 */
static void peer_ack_all(int fd, uint16_t window)
{
	int out, sent, tries = 0;

	while ((out = outstanding(fd))) {
		sent = in_flight(fd);
		if (sent == out)
			peer_window(window);
		if (sent)
			peer_ack(sent);
		else if (tries++ < 1000)
			usleep(1000);	/* packets are still in the device */
		else
			errx(1, "nothing is sent of %d bytes", out);
	}
}

/* ------------------------------------------------------------------ */
/* The socket                                                          */

static void set(int fd, int level, int name, int val, const char *what)
{
	if (setsockopt(fd, level, name, &val, sizeof(val)))
		err(1, "%s", what);
}

static socklen_t address(struct sockaddr_storage *ss, int family, bool mine)
{
	int port = mine ? PORT + 1 : PORT;

	memset(ss, 0, sizeof(*ss));
	ss->ss_family = family;
	if (family == AF_INET6) {
		struct sockaddr_in6 *in6 = (void *)ss;

		inet_pton(AF_INET6, mine ? "2001:db8::1" : "2001:db8::2",
			  &in6->sin6_addr);
		in6->sin6_port = htons(port);
		return sizeof(*in6);
	}
	((struct sockaddr_in *)ss)->sin_port = htons(port);
	inet_pton(AF_INET, mine ? "192.0.2.1" : "192.0.2.2",
		  &((struct sockaddr_in *)ss)->sin_addr);
	return sizeof(struct sockaddr_in);
}

/* Behind the dummy device; TCP without a handshake, see zc_bench.c. */
static int open_inet(int family, bool tcp)
{
	struct tcp_repair_opt opts[] = {
		{ .opt_code = 2, .opt_val = MSS },
		{ .opt_code = 3, .opt_val = WSCALE | WSCALE << 16 },
	};
	int fd = socket(family, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
	struct linger reset = { .l_onoff = 1 };
	struct sockaddr_storage me, to;
	socklen_t len = address(&me, family, true);

	address(&to, family, false);
	if (fd < 0)
		err(1, "socket");
	set(fd, SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20, "SO_SNDBUFFORCE");
	set(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
	/* Nobody answers a FIN. */
	if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)))
		err(1, "SO_LINGER");
	if (tcp) {
		set(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
		set(fd, IPPROTO_TCP, TCP_REPAIR, TCP_REPAIR_ON, "TCP_REPAIR");
		set(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, TCP_SEND_QUEUE, "queue");
		set(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, SEQ, "TCP_QUEUE_SEQ");
		set(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, TCP_RECV_QUEUE, "queue");
		set(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, PEER_SEQ, "TCP_QUEUE_SEQ");
	}
	if (bind(fd, (struct sockaddr *)&me, len))
		err(1, "bind: has dummy0 its addresses?");
	if (connect(fd, (struct sockaddr *)&to, len))
		err(1, "connect");
	if (tcp) {
		if (setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_OPTIONS, opts,
			       sizeof(opts)))
			err(1, "TCP_REPAIR_OPTIONS");
		set(fd, IPPROTO_TCP, TCP_REPAIR, TCP_REPAIR_OFF_NO_WP, "repair");
		peer_open(family, &me, &to);
		peer_ack(0);	/* tells the window */
	}
	return fd;
}
