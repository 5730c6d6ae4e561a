// SPDX-License-Identifier: GPL-2.0-only
/* Shows that each zero-copy send brings back which earlier ones are complete. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/errqueue.h>

#define SENDS	5
#define ROOM	2

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

int main(void)
{
	size_t len = sizeof(struct zc_info) + ROOM * sizeof(struct zc_info_elem);
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	alignas(struct cmsghdr) char control[256] = {};
	static char data[4096];
	struct iovec iov = { data, sizeof(data) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = CMSG_SPACE(len) };
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	struct zc_info *info = (struct zc_info *)CMSG_DATA(cmsg);
	int receiver = socket(AF_INET, SOCK_DGRAM, 0), sender = socket(AF_INET, SOCK_DGRAM, 0), one = 1;
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	socklen_t addrlen = sizeof(to);
	unsigned int i, sent, next = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (ioctl(receiver, SIOCSIFFLAGS, &lo))
		die("lo");
	if (bind(receiver, (void *)&to, addrlen) || getsockname(receiver, (void *)&to, &addrlen))
		die("bind");
	if (connect(sender, (void *)&to, addrlen) || setsockopt(sender, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)))
		die("connect");

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_ZC_NOTIFICATION;
	cmsg->cmsg_len = CMSG_LEN(len);

	printf("MSG_ZEROCOPY sends over UDP, each with room for %d ranges of completed sends:\n", ROOM);
	for (sent = 0; sent < SENDS; sent++) {
		info->size = ROOM;
		if (sendmsg(sender, &msg, MSG_ZEROCOPY) != sizeof(data))
			die("sendmsg");
		printf("    send %u came back with", sent);
		for (i = 0; i < info->size; i++) {
			printf(" %u..%u", info->arr[i].lo, info->arr[i].hi);
			if (info->arr[i].lo != next)
				printf(" (wrong: %u was due)", next);
			else
				next = info->arr[i].hi + 1;
		}
		printf("%s\n", info->size ? "" : " nothing");
	}
	printf("    (%u of %u are complete; recvmsg(MSG_ERRQUEUE) was called 0 times)\n", next, sent);
	return next == 0;
}
