// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shows zero-copy receive at work: over vsock loopback, packets of several sizes
 * are received into a mapping of the socket, and what the kernel says of each is
 * printed. Exit status 0 when every byte is where it belongs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/sockios.h>
#include <linux/virtio_vsock.h>
#include <linux/vm_sockets.h>

#define PAGE	4096
#define PAGES	65

static const int packets[] = { 56, 4096, 8200, 32768, 65536 };
#define COUNT	((int)(sizeof(packets) / sizeof(packets[0])))

static int wrong;

static int die(const char *what)
{
	perror(what);
	exit(1);
}

static unsigned char byte_at(size_t pos)
{
	return pos ^ (pos >> 8) ^ 0x5a;
}

/* A connection of this program to itself. */
static void connect_both(int *sender, int *receiver)
{
	struct sockaddr_vm addr = {
		.svm_family = AF_VSOCK,
		.svm_cid = VMADDR_CID_LOCAL,
		.svm_port = VMADDR_PORT_ANY,
	};
	socklen_t len = sizeof(addr);
	int listener = socket(AF_VSOCK, SOCK_STREAM, 0);

	*sender = socket(AF_VSOCK, SOCK_STREAM, 0);
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
static size_t send_all(int sender, int receiver)
{
	static unsigned char data[65536];
	size_t total = 0;
	int queued = 0, i, j;

	for (i = 0; i < COUNT; i++) {
		for (j = 0; j < packets[i]; j++)
			data[j] = byte_at(total++);
		if (send(sender, data, packets[i], 0) != packets[i])
			die("send");
	}
	while ((size_t)queued < total) {
		if (ioctl(receiver, SIOCINQ, &queued))
			die("SIOCINQ");
		usleep(1000);
	}
	return total;
}

/* The bytes of a header, and nothing but zeros behind them. */
static void look_at(const unsigned char *data, size_t len, size_t pos)
{
	size_t room = (len + PAGE - 1) / PAGE * PAGE, i;

	for (i = 0; i < room; i++) {
		if (data[i] != (i < len ? byte_at(pos + i) : 0)) {
			printf("   <-- byte %zu is wrong", i);
			wrong++;
			break;
		}
	}
}

int main(void)
{
	const struct virtio_vsock_usr_hdr *hdr;
	struct vm_sockets_zerocopy arg = { .length = PAGES * PAGE };
	int sender, receiver, on = 1;
	socklen_t len = sizeof(arg);
	const unsigned char *data;
	size_t total, pos = 0;
	unsigned int i;
	void *map;

	connect_both(&sender, &receiver);
	if (setsockopt(receiver, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY, &on, sizeof(on))) {
		printf("setsockopt(SO_VM_SOCKETS_ZEROCOPY): %s\n", strerror(errno));
		return 1;
	}
	map = mmap(NULL, arg.length, PROT_READ, MAP_SHARED, receiver, 0);
	if (map == MAP_FAILED)
		die("mmap of the socket");

	total = send_all(sender, receiver);
	printf("%d packets, %zu bytes, are queued. One call receives them into a mapping of %d pages:\n",
	       COUNT, total, PAGES);

	arg.address = (unsigned long)map;
	if (getsockopt(receiver, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY, &arg, &len))
		die("getsockopt(SO_VM_SOCKETS_ZEROCOPY)");

	hdr = map;
	data = (const unsigned char *)map + PAGE;
	for (i = 0; i < arg.headers; i++) {
		printf("    %6u bytes on page %2ld, %s", hdr[i].len,
		       (long)((data - (const unsigned char *)map) / PAGE),
		       hdr[i].flags & VIRTIO_VSOCK_USR_COPIED ? "copied" :
		       "the pages they arrived in");
		look_at(data, hdr[i].len, pos);
		printf("\n");
		pos += hdr[i].len;
		data += (hdr[i].len + PAGE - 1) / PAGE * PAGE;
	}
	printf("    %llu bytes in all, %llu of them copied, %llu left in the queue\n",
	       (unsigned long long)arg.bytes, (unsigned long long)arg.copied,
	       (unsigned long long)arg.queued);

	if (pos != total || arg.bytes != total || arg.queued) {
		printf("    <-- expected %zu bytes and none left\n", total);
		wrong++;
	}
	return wrong ? 1 : 0;
}
