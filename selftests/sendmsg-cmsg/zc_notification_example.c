// SPDX-License-Identifier: GPL-2.0
/*
 * Send with MSG_ZEROCOPY and learn from later sends which buffers are free.
 * The other end of the connection is a child that only reads.
 */
#include <arpa/inet.h>
#include <error.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/errqueue.h>

#define BUFFERS	8
#define SENDS	1000
#define ROOM	4
#define INFO	(sizeof(struct zc_info) + ROOM * sizeof(struct zc_info_elem))

static char buffer[BUFFERS][16384];
static int busy[BUFFERS], returned, ranges;

/* The n-th send, counted from 0, went out of buffer n % BUFFERS. */
static void give_back(__u32 lo, __u32 hi)
{
	for (__u32 n = lo; n != hi + 1; n++, returned++)
		if (n >= SENDS || !busy[n % BUFFERS]--)
			error(1, 0, "send %u came back, and was not out", n);
}

static void send_buffer(int fd, void *buf, size_t len)
{
	union { char buf[CMSG_SPACE(INFO)]; struct cmsghdr hdr; } control = {
		.hdr = { .cmsg_len = CMSG_LEN(INFO), .cmsg_level = SOL_SOCKET,
			 .cmsg_type = SCM_ZC_NOTIFICATION }
	};
	struct zc_info *info = (struct zc_info *)CMSG_DATA(&control.hdr);
	struct iovec iov = { buf, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	info->size = ROOM;	/* before each call, which changes it */
	if (sendmsg(fd, &msg, MSG_ZEROCOPY) != len)
		error(1, errno, "sendmsg");
	for (__u32 i = 0; i < info->size; i++, ranges++)
		give_back(info->arr[i].lo, info->arr[i].hi);
}

/* For who has nothing to send, or no buffer left to send from. */
static void wait_for_buffer(int fd)
{
	struct pollfd pfd = { .fd = fd };	/* POLLERR needs no asking */
	union { char buf[128]; struct cmsghdr hdr; } control;
	struct msghdr msg = { .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct sock_extended_err *err = (void *)CMSG_DATA(&control.hdr);

	if (poll(&pfd, 1, 10000) != 1 || recvmsg(fd, &msg, MSG_ERRQUEUE) < 0)
		error(1, errno, "no notification");
	if (err->ee_origin == SO_EE_ORIGIN_ZEROCOPY)
		give_back(err->ee_info, err->ee_data);
}

int main(void)
{
	struct sockaddr_in in = { .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd, one = 1;
	socklen_t len = sizeof(in);

	in.sin_family = AF_INET;
	if (bind(listener, (void *)&in, len) || listen(listener, 1) ||
	    getsockname(listener, (void *)&in, &len))
		error(1, errno, "listen");
	if (!fork()) {
		fd = accept(listener, NULL, NULL);
		while (read(fd, buffer, sizeof(buffer)) > 0)
			;
		return 0;
	}
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fd, (void *)&in, len) ||
	    setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)))
		error(1, errno, "connect");

	for (int n = 0; n < SENDS; n++) {
		while (busy[n % BUFFERS])
			wait_for_buffer(fd);
		memset(buffer[n % BUFFERS], n, sizeof(buffer[0]));
		busy[n % BUFFERS] = 1;
		send_buffer(fd, buffer[n % BUFFERS], sizeof(buffer[0]));
	}
	while (returned < SENDS)
		wait_for_buffer(fd);

	printf("%d sends came back, %d ranges with a later send\n", returned, ranges);
	return ranges == 0;
}
