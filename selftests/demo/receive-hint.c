// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shows the receive hint at work: over vsock loopback, what each receive says
 * of the data that it leaves; once with SO_INQ, once with an io_uring multishot
 * receive. Exit status 0 when the kernel says what is true.
 */
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <linux/sockios.h>
#include <linux/vm_sockets.h>

#define MESSAGE	1000
#define COUNT	3
#define GROUP	7

static int wrong;

static int die(const char *what)
{
	perror(what);
	exit(1);
}

static void expect(int value, int want)
{
	if (value == want) {
		printf("\n");
	} else {
		printf("   <-- expected %d\n", want);
		wrong++;
	}
}

/* A connection of this program to itself. */
static void connect_both(int type, int *sender, int *receiver)
{
	struct sockaddr_vm addr = {
		.svm_family = AF_VSOCK,
		.svm_cid = VMADDR_CID_LOCAL,
		.svm_port = VMADDR_PORT_ANY,
	};
	socklen_t len = sizeof(addr);
	int listener = socket(AF_VSOCK, type, 0);

	*sender = socket(AF_VSOCK, type, 0);
	if (listener < 0 || *sender < 0 ||
	    bind(listener, (void *)&addr, sizeof(addr)) || listen(listener, 1) ||
	    getsockname(listener, (void *)&addr, &len) ||
	    connect(*sender, (void *)&addr, sizeof(addr)))
		die("vsock loopback");
	*receiver = accept(listener, NULL, NULL);
	if (*receiver < 0)
		die("accept");
	close(listener);
}

/* Loopback delivers from a worker: wait until all is queued at the receiver. */
static void send_all(int sender, int receiver, int messages)
{
	char data[MESSAGE] = { 0 };
	int queued = 0, i;

	for (i = 0; i < messages; i++)
		if (send(sender, data, sizeof(data), 0) != sizeof(data))
			die("send");
	while (queued < messages * MESSAGE) {
		if (ioctl(receiver, SIOCINQ, &queued))
			die("SIOCINQ");
		usleep(1000);
	}
}

/* What the control message SCM_INQ says; -1 when there is none. */
static int receive_inq(int fd)
{
	char data[MESSAGE], control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { data, sizeof(data) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c;
	int inq = -1;
	ssize_t n = recvmsg(fd, &msg, 0);

	if (n < 0)
		die("recvmsg");
	printf("    recvmsg() gave %4zd bytes; left: ", n);
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_INQ)
		memcpy(&inq, CMSG_DATA(c), sizeof(inq));
	printf(inq < 0 ? "not told" : "%4d", inq);
	return inq;
}

static void show_so_inq(void)
{
	int sender, receiver, on = 1, i;

	connect_both(SOCK_STREAM, &sender, &receiver);
	printf("SO_INQ: %d messages of %d bytes are queued.\n", COUNT, MESSAGE);
	if (setsockopt(receiver, SOL_SOCKET, SO_INQ, &on, sizeof(on)))
		printf("    setsockopt(SO_INQ): %s\n", strerror(errno));
	send_all(sender, receiver, COUNT);
	for (i = 1; i <= COUNT; i++)
		expect(receive_inq(receiver), (COUNT - i) * MESSAGE);
	printf("    (0: the next receive would wait, so there is no need to try)\n");
	close(sender);
	close(receiver);
}

static void show_io_uring(int type, const char *name)
{
	static char memory[8][MESSAGE];
	struct io_uring_buf_ring *buffers;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	int sender, receiver, i, err;
	struct io_uring ring;

	connect_both(type, &sender, &receiver);
	printf("io_uring, one multishot receive on a %s socket, %d messages queued.\n", name, COUNT);
	send_all(sender, receiver, COUNT);

	if (io_uring_queue_init(16, &ring, 0))
		die("io_uring");
	buffers = io_uring_setup_buf_ring(&ring, 8, GROUP, 0, &err);
	if (!buffers)
		die("provided buffers");
	for (i = 0; i < 8; i++)
		io_uring_buf_ring_add(buffers, memory[i], MESSAGE, i, 7, i);
	io_uring_buf_ring_advance(buffers, 8);

	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_recv_multishot(sqe, receiver, NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	io_uring_submit(&ring);

	for (i = 1; i <= COUNT; i++) {
		if (io_uring_wait_cqe(&ring, &cqe))
			die("completion");
		err = !!(cqe->flags & IORING_CQE_F_SOCK_NONEMPTY);
		printf("    completion: %4d bytes, %s", cqe->res, err ? "SOCK_NONEMPTY" : "socket is empty");
		expect(err, i < COUNT);
		io_uring_cqe_seen(&ring, cqe);
	}
	printf("    (at the empty socket it waits for data instead of trying once more)\n");
	io_uring_queue_exit(&ring);
	close(sender);
	close(receiver);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	show_so_inq();
	show_io_uring(SOCK_STREAM, "stream");
	show_io_uring(SOCK_SEQPACKET, "seqpacket");
	return wrong ? 1 : 0;
}
