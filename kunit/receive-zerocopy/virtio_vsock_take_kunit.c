// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for how a virtio vsock socket is received from in two steps:
 * virtio_transport_rx_look() and virtio_transport_rx_take().
 *
 * The suite is the peer, and hands packets to the real receive path. What is
 * taken must leave the socket, and the peer's credit, as recv() leaves them: two
 * sockets get the same packets, and one is read by recv(), the other is taken
 * from.
 */
#include <kunit/test.h>
#include <linux/prandom.h>
#include <linux/virtio_vsock.h>
#include <net/af_vsock.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#define PEER_CID	5
#define PEER_PORT	5000
#define OWN_CID		42
#define OWN_PORT	1234

#define EOM		VIRTIO_VSOCK_SEQ_EOM
#define EOR		VIRTIO_VSOCK_SEQ_EOR

/* One socket and its peer. */
struct take_end {
	struct socket *sock;
	struct vsock_sock *vsk;
	struct virtio_vsock_sock *vvs;
	u32 index;
	u32 sent;
	u32 told_fwd_cnt;
	u32 told_buf_alloc;
	int updates;
};

struct take_ctx {
	struct take_end ends[2];
	u8 *buf;		/* VIRTIO_VSOCK_MAX_PKT_BUF_SIZE bytes */
};

/* send_pkt() is not told whom it works for. Suites run one after the other. */
static struct take_ctx *take_peers;

static int take_send_pkt(struct sk_buff *skb, struct net *net)
{
	struct virtio_vsock_hdr *hdr = virtio_vsock_hdr(skb);
	u32 index = le32_to_cpu(hdr->dst_port) - PEER_PORT;
	int len = skb->len;

	if (index < ARRAY_SIZE(take_peers->ends)) {
		struct take_end *end = &take_peers->ends[index];

		end->told_fwd_cnt = le32_to_cpu(hdr->fwd_cnt);
		end->told_buf_alloc = le32_to_cpu(hdr->buf_alloc);
		end->updates += le16_to_cpu(hdr->op) ==
				VIRTIO_VSOCK_OP_CREDIT_UPDATE;
	}
	kfree_skb(skb);

	return len;
}

static u32 take_get_local_cid(void)
{
	return OWN_CID;
}

static struct virtio_transport take_transport = {
	.transport = {
		.get_local_cid = take_get_local_cid,
		.destruct = virtio_transport_destruct,
		.stream_dequeue = virtio_transport_stream_dequeue,
		.stream_has_data = virtio_transport_stream_has_data,
		.stream_rcvhiwat = virtio_transport_stream_rcvhiwat,
		.seqpacket_dequeue = virtio_transport_seqpacket_dequeue,
		.seqpacket_has_data = virtio_transport_seqpacket_has_data,
		.notify_recv_init = virtio_transport_notify_recv_init,
		.notify_recv_pre_block = virtio_transport_notify_recv_pre_block,
		.notify_recv_pre_dequeue = virtio_transport_notify_recv_pre_dequeue,
		.notify_recv_post_dequeue = virtio_transport_notify_recv_post_dequeue,
		.rx_look = virtio_transport_rx_look,
		.rx_take = virtio_transport_rx_take,
	},
	.send_pkt = take_send_pkt,
};

static int take_init(struct kunit *test)
{
	struct take_ctx *ctx = kunit_kzalloc(test, sizeof(*ctx), GFP_KERNEL);

	if (!ctx)
		return -ENOMEM;
	test->priv = ctx;
	take_peers = ctx;
	ctx->buf = kunit_kzalloc(test, VIRTIO_VSOCK_MAX_PKT_BUF_SIZE, GFP_KERNEL);

	return ctx->buf ? 0 : -ENOMEM;
}

static void take_exit(struct kunit *test)
{
	struct take_ctx *ctx = test->priv;
	int i;

	for (i = 0; ctx && i < ARRAY_SIZE(ctx->ends); i++) {
		struct take_end *end = &ctx->ends[i];

		if (!end->sock)
			continue;
		if (end->vvs) {
			lock_sock(sk_vsock(end->vsk));
			vsock_remove_sock(end->vsk);
			__skb_queue_purge(&end->vvs->rx_queue);
			virtio_transport_destruct(end->vsk);
			end->vsk->transport = NULL;
			sk_vsock(end->vsk)->sk_state = TCP_CLOSE;
			end->sock->state = SS_UNCONNECTED;
			release_sock(sk_vsock(end->vsk));
		}
		sock_release(end->sock);
	}
}

/* Connect a socket to its peer, with a buffer of @size bytes at each end. */
static struct take_end *take_connect(struct kunit *test, int type, u32 index,
				     u32 size)
{
	struct take_ctx *ctx = test->priv;
	struct take_end *end = &ctx->ends[index];
	struct vsock_sock *vsk;

	KUNIT_ASSERT_EQ(test, sock_create_kern(&init_net, AF_VSOCK, type, 0,
					       &end->sock), 0);
	vsk = vsock_sk(end->sock->sk);
	end->vsk = vsk;
	end->index = index;
	vsk->buffer_min_size = 1;
	vsk->buffer_max_size = U32_MAX;
	vsk->buffer_size = size;
	KUNIT_ASSERT_EQ(test, virtio_transport_do_socket_init(vsk, NULL), 0);
	end->vvs = vsk->trans;
	end->vvs->peer_buf_alloc = size;
	end->told_buf_alloc = size;
	/* The counters wrap in the middle of a case. */
	end->sent = U32_MAX - SZ_32K;
	end->told_fwd_cnt = end->sent;
	end->vvs->fwd_cnt = end->sent;
	end->vvs->last_fwd_cnt = end->sent;

	lock_sock(sk_vsock(vsk));
	vsk->transport = &take_transport.transport;
	vsock_addr_init(&vsk->local_addr, OWN_CID, OWN_PORT + index);
	vsock_addr_init(&vsk->remote_addr, PEER_CID, PEER_PORT + index);
	sk_vsock(vsk)->sk_state = TCP_ESTABLISHED;
	end->sock->state = SS_CONNECTED;
	vsock_insert_connected(vsk);
	release_sock(sk_vsock(vsk));

	return end;
}

/* Let the peer send one packet: byte n of all that it sends is n % 251. */
static void take_arrive(struct kunit *test, struct take_end *end, u32 len,
			u32 flags)
{
	struct take_ctx *ctx = test->priv;
	struct virtio_vsock_hdr *hdr;
	struct sk_buff *skb;
	u32 i;

	skb = virtio_vsock_alloc_skb(VIRTIO_VSOCK_SKB_HEADROOM + len, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, skb);
	hdr = virtio_vsock_hdr(skb);
	memset(hdr, 0, sizeof(*hdr));
	hdr->src_cid = cpu_to_le64(PEER_CID);
	hdr->dst_cid = cpu_to_le64(OWN_CID);
	hdr->src_port = cpu_to_le32(PEER_PORT + end->index);
	hdr->dst_port = cpu_to_le32(OWN_PORT + end->index);
	hdr->len = cpu_to_le32(len);
	hdr->type = cpu_to_le16(sk_vsock(end->vsk)->sk_type == SOCK_STREAM ?
				VIRTIO_VSOCK_TYPE_STREAM :
				VIRTIO_VSOCK_TYPE_SEQPACKET);
	hdr->op = cpu_to_le16(VIRTIO_VSOCK_OP_RW);
	hdr->flags = cpu_to_le32(flags);
	hdr->buf_alloc = cpu_to_le32(end->vvs->peer_buf_alloc);
	virtio_vsock_skb_put(skb, len);
	for (i = 0; i < len; i++)
		ctx->buf[i] = (u32)(end->sent + i) % 251;
	skb_store_bits(skb, 0, ctx->buf, len);
	end->sent += len;

	virtio_transport_recv_pkt(&take_transport, skb, &init_net);
}

static u32 take_credit_left(const struct take_end *end)
{
	return end->told_buf_alloc - (u32)(end->sent - end->told_fwd_cnt);
}

/* Receive by recv(), and check the bytes, which come next before @end->sent. */
static int take_recv(struct kunit *test, struct take_end *end, u32 len, int flags)
{
	struct take_ctx *ctx = test->priv;
	struct kvec vec = { .iov_base = ctx->buf, .iov_len = len };
	u32 first = end->sent - end->vvs->rx_bytes;
	struct msghdr msg = {};
	int i, ret;

	ret = kernel_recvmsg(end->sock, &msg, &vec, 1, len,
			     flags | MSG_DONTWAIT);
	for (i = 0; i < ret; i++) {
		if (ctx->buf[i] != (u32)(first + i) % 251)
			break;
	}
	if (ret > 0)
		KUNIT_EXPECT_EQ_MSG(test, i, ret, "another byte");

	return ret;
}

/* Take @bytes bytes, of as many packets as that is. */
static void take_bytes(struct take_end *end, u32 bytes)
{
	struct vsock_rx_packet pkt = {};
	u32 packets = 0;

	lock_sock(sk_vsock(end->vsk));
	while (bytes && virtio_transport_rx_look(end->vsk, &pkt) &&
	       pkt.len <= bytes) {
		bytes -= pkt.len;
		packets++;
	}
	virtio_transport_rx_take(end->vsk, packets, bytes);
	release_sock(sk_vsock(end->vsk));
}

static void take_packets(struct take_end *end, u32 packets, u32 bytes)
{
	lock_sock(sk_vsock(end->vsk));
	virtio_transport_rx_take(end->vsk, packets, bytes);
	release_sock(sk_vsock(end->vsk));
}

/* Look at all packets: how many, and what the last one is. */
static u32 take_look(struct take_end *end, struct vsock_rx_packet *pkt)
{
	u32 packets = 0;

	memset(pkt, 0, sizeof(*pkt));
	lock_sock(sk_vsock(end->vsk));
	while (virtio_transport_rx_look(end->vsk, pkt))
		packets++;
	release_sock(sk_vsock(end->vsk));

	return packets;
}

static void take_expect_equal(struct kunit *test, struct take_end *a,
			      struct take_end *b)
{
	KUNIT_EXPECT_EQ(test, a->vvs->rx_bytes, b->vvs->rx_bytes);
	KUNIT_EXPECT_EQ(test, a->vvs->buf_used, b->vvs->buf_used);
	KUNIT_EXPECT_EQ(test, a->vvs->fwd_cnt, b->vvs->fwd_cnt);
	KUNIT_EXPECT_EQ(test, a->vvs->msg_count, b->vvs->msg_count);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&a->vvs->rx_queue),
			skb_queue_len(&b->vvs->rx_queue));
	KUNIT_EXPECT_EQ(test, take_credit_left(a), take_credit_left(b));
	KUNIT_EXPECT_EQ(test, a->updates, b->updates);
}

static void take_expect_drained(struct kunit *test, struct take_end *end)
{
	KUNIT_EXPECT_EQ(test, end->vvs->rx_bytes, 0);
	KUNIT_EXPECT_EQ(test, end->vvs->buf_used, 0);
	KUNIT_EXPECT_EQ(test, end->vvs->msg_count, 0);
	KUNIT_EXPECT_EQ(test, end->vvs->fwd_cnt, end->sent);
	KUNIT_EXPECT_TRUE(test, skb_queue_empty(&end->vvs->rx_queue));
	KUNIT_EXPECT_EQ(test, vsock_stream_has_data(end->vsk), 0);
}

static void take_look_at_nothing(struct kunit *test)
{
	struct take_end *end = take_connect(test, SOCK_STREAM, 0, SZ_256K);
	struct vsock_rx_packet pkt;

	KUNIT_EXPECT_EQ(test, take_look(end, &pkt), 0);
	KUNIT_EXPECT_NULL(test, pkt.skb);
}

static void take_look_at_a_stream(struct kunit *test)
{
	struct take_end *end = take_connect(test, SOCK_STREAM, 0, SZ_256K);
	struct vsock_rx_packet pkt = {};

	take_arrive(test, end, 1000, 0);
	/* Flags mean nothing on a stream. */
	take_arrive(test, end, 2000, EOM | EOR);
	take_arrive(test, end, 50000, 0);
	KUNIT_EXPECT_EQ(test, take_recv(test, end, 300, 0), 300);

	lock_sock(sk_vsock(end->vsk));
	KUNIT_EXPECT_TRUE(test, virtio_transport_rx_look(end->vsk, &pkt));
	KUNIT_EXPECT_EQ(test, pkt.offset, 300);
	KUNIT_EXPECT_EQ(test, pkt.len, 700);
	KUNIT_EXPECT_EQ(test, pkt.flags, 0);
	KUNIT_EXPECT_TRUE(test, virtio_transport_rx_look(end->vsk, &pkt));
	KUNIT_EXPECT_EQ(test, pkt.offset, 0);
	KUNIT_EXPECT_EQ(test, pkt.len, 2000);
	KUNIT_EXPECT_EQ(test, pkt.flags, 0);
	KUNIT_EXPECT_TRUE(test, virtio_transport_rx_look(end->vsk, &pkt));
	KUNIT_EXPECT_EQ(test, pkt.len, 50000);
	/* The end: the packet is left alone. */
	KUNIT_EXPECT_FALSE(test, virtio_transport_rx_look(end->vsk, &pkt));
	KUNIT_EXPECT_EQ(test, pkt.len, 50000);
	release_sock(sk_vsock(end->vsk));

	/* Nothing has changed by that. */
	KUNIT_EXPECT_EQ(test, end->vvs->rx_bytes, 52700);
	KUNIT_EXPECT_EQ(test, take_recv(test, end, 60000, 0), 52700);
}

static void take_look_at_messages(struct kunit *test)
{
	struct take_end *end = take_connect(test, SOCK_SEQPACKET, 0, SZ_256K);
	struct vsock_rx_packet pkt;

	take_arrive(test, end, 1000, 0);
	take_arrive(test, end, 2000, EOR);
	KUNIT_EXPECT_EQ(test, take_look(end, &pkt), 0);
	KUNIT_EXPECT_NULL(test, pkt.skb);

	take_arrive(test, end, 3000, EOM | EOR);
	KUNIT_EXPECT_EQ(test, take_look(end, &pkt), 3);
	KUNIT_EXPECT_EQ(test, pkt.len, 3000);
	KUNIT_EXPECT_EQ(test, pkt.flags, EOM | EOR);

	take_arrive(test, end, 0, EOM);
	KUNIT_EXPECT_EQ(test, take_look(end, &pkt), 4);
	KUNIT_EXPECT_EQ(test, pkt.len, 0);
	KUNIT_EXPECT_EQ(test, pkt.flags, EOM);

	/* The beginning of one more. */
	take_arrive(test, end, 1000, 0);
	KUNIT_EXPECT_EQ(test, take_look(end, &pkt), 4);
	take_arrive(test, end, 1000, EOM);
	KUNIT_EXPECT_EQ(test, take_look(end, &pkt), 6);

	/* Messages that were taken do not count any more. */
	take_packets(end, 4, 0);
	KUNIT_EXPECT_EQ(test, take_look(end, &pkt), 2);
	take_arrive(test, end, 1000, 0);
	KUNIT_EXPECT_EQ(test, take_look(end, &pkt), 2);
}

/* The flags of a packet that ends no message are nobody's business. */
static void take_look_at_flags(struct kunit *test)
{
	struct take_end *end = take_connect(test, SOCK_SEQPACKET, 0, SZ_256K);
	struct vsock_rx_packet pkt = {};

	take_arrive(test, end, 1000, EOR);
	take_arrive(test, end, 1000, EOM);
	lock_sock(sk_vsock(end->vsk));
	KUNIT_EXPECT_TRUE(test, virtio_transport_rx_look(end->vsk, &pkt));
	KUNIT_EXPECT_EQ(test, pkt.flags, 0);
	KUNIT_EXPECT_TRUE(test, virtio_transport_rx_look(end->vsk, &pkt));
	KUNIT_EXPECT_EQ(test, pkt.flags, EOM);
	release_sock(sk_vsock(end->vsk));
}

static void take_whole_packets(struct kunit *test)
{
	struct take_end *end = take_connect(test, SOCK_STREAM, 0, SZ_256K);

	take_arrive(test, end, 1000, 0);
	take_arrive(test, end, 2000, 0);
	take_arrive(test, end, 3000, 0);
	take_packets(end, 2, 0);
	KUNIT_EXPECT_EQ(test, end->vvs->rx_bytes, 3000);
	KUNIT_EXPECT_EQ(test, end->vvs->buf_used, 3000);
	KUNIT_EXPECT_EQ(test, take_recv(test, end, 10000, 0), 3000);
	take_expect_drained(test, end);
}

/* Credit moves with whole packets, the number of bytes to read with bytes. */
static void take_part_of_a_packet(struct kunit *test)
{
	struct take_end *end = take_connect(test, SOCK_STREAM, 0, SZ_256K);

	take_arrive(test, end, 1000, 0);
	take_arrive(test, end, 5000, 0);
	take_packets(end, 1, 100);
	KUNIT_EXPECT_EQ(test, end->vvs->rx_bytes, 4900);
	KUNIT_EXPECT_EQ(test, end->vvs->buf_used, 5000);
	take_packets(end, 0, 4000);
	KUNIT_EXPECT_EQ(test, end->vvs->rx_bytes, 900);
	KUNIT_EXPECT_EQ(test, end->vvs->buf_used, 5000);
	KUNIT_EXPECT_EQ(test, take_recv(test, end, 10000, MSG_PEEK), 900);
	KUNIT_EXPECT_EQ(test, take_recv(test, end, 400, 0), 400);
	take_packets(end, 1, 0);
	take_expect_drained(test, end);
}

static void take_nothing(struct kunit *test)
{
	struct take_end *end = take_connect(test, SOCK_STREAM, 0, SZ_256K);

	take_packets(end, 0, 0);
	take_expect_drained(test, end);
	take_arrive(test, end, 1000, 0);
	take_packets(end, 0, 0);
	KUNIT_EXPECT_EQ(test, end->vvs->rx_bytes, 1000);
	KUNIT_EXPECT_EQ(test, end->updates, 0);
}

/* recv() returns what is left of a message, and then the next one. */
static void take_part_of_a_message(struct kunit *test)
{
	struct take_end *end = take_connect(test, SOCK_SEQPACKET, 0, SZ_256K);

	take_arrive(test, end, 1000, 0);
	take_arrive(test, end, 2000, 0);
	take_arrive(test, end, 3000, EOM);
	take_arrive(test, end, 500, EOM);
	take_packets(end, 1, 200);
	KUNIT_EXPECT_EQ(test, end->vvs->msg_count, 2);
	KUNIT_EXPECT_EQ(test, take_recv(test, end, 10000, 0), 1800 + 3000);
	KUNIT_EXPECT_EQ(test, end->vvs->msg_count, 1);
	KUNIT_EXPECT_EQ(test, take_recv(test, end, 10000, 0), 500);
	take_expect_drained(test, end);
}

static void take_messages(struct kunit *test)
{
	struct take_end *end = take_connect(test, SOCK_SEQPACKET, 0, SZ_256K);

	take_arrive(test, end, 1000, 0);
	take_arrive(test, end, 2000, EOM);
	take_arrive(test, end, 0, EOM);
	take_arrive(test, end, 500, EOM | EOR);
	take_packets(end, 3, 0);
	KUNIT_EXPECT_EQ(test, end->vvs->msg_count, 1);
	KUNIT_EXPECT_EQ(test, end->vvs->rx_bytes, 500);
	take_packets(end, 1, 0);
	take_expect_drained(test, end);
}

/* The same packets, received in the same pieces. */
struct take_same_param {
	const char *desc;
	u32 size;		/* of the buffers */
	u32 packet;		/* each packet, at most */
	u32 piece;		/* each receive, at most */
};

static const struct take_same_param take_same_params[] = {
	{ "tiny packets", SZ_64K, 50, 1000 },
	{ "small packets, small pieces", SZ_64K, 2000, 500 },
	{ "pages", SZ_256K, SZ_4K, SZ_4K },
	{ "large packets, small pieces", SZ_256K, SZ_64K, 3000 },
	{ "large packets, large pieces", SZ_256K, SZ_64K, SZ_64K },
	{ "small buffer", SZ_16K, SZ_8K, SZ_8K },
};

KUNIT_ARRAY_PARAM_DESC(take_same, take_same_params, desc);

static void take_same_as_recv(struct kunit *test)
{
	const struct take_same_param *p = test->param_value;
	struct take_end *a = take_connect(test, SOCK_STREAM, 0, p->size);
	struct take_end *b = take_connect(test, SOCK_STREAM, 1, p->size);
	struct rnd_state rnd;
	u32 len;
	int i;

	prandom_seed_state(&rnd, p->piece);
	for (i = 0; i < 500; i++) {
		len = 1 + prandom_u32_state(&rnd) % p->packet;
		len = min(len, take_credit_left(a));
		if (len && prandom_u32_state(&rnd) % 3) {
			take_arrive(test, a, len, 0);
			take_arrive(test, b, len, 0);
		}
		len = 1 + prandom_u32_state(&rnd) % p->piece;
		len = min(len, a->vvs->rx_bytes);
		if (len && prandom_u32_state(&rnd) % 3) {
			KUNIT_ASSERT_EQ(test, take_recv(test, a, len, 0), len);
			take_bytes(b, len);
		}
		take_expect_equal(test, a, b);
		/* The peer is never stuck. */
		KUNIT_ASSERT_TRUE(test, a->vvs->rx_bytes || take_credit_left(b));
	}
	take_bytes(b, b->vvs->rx_bytes);
	take_expect_drained(test, b);
}

static void take_same_messages_as_recv(struct kunit *test)
{
	const struct take_same_param *p = test->param_value;
	struct take_end *a = take_connect(test, SOCK_SEQPACKET, 0, p->size);
	struct take_end *b = take_connect(test, SOCK_SEQPACKET, 1, p->size);
	struct rnd_state rnd;
	int i;

	prandom_seed_state(&rnd, p->piece);
	for (i = 0; i < 200; i++) {
		u32 left = prandom_u32_state(&rnd) % p->packet;
		u32 packets = 0;

		/* A message that fits, in one packet or more. */
		left = min(left, take_credit_left(a) / 2);
		while (left > 200 && prandom_u32_state(&rnd) % 2) {
			u32 len = 1 + prandom_u32_state(&rnd) % (left - 1);

			take_arrive(test, a, len, 0);
			take_arrive(test, b, len, 0);
			left -= len;
		}
		take_arrive(test, a, left, EOM);
		take_arrive(test, b, left, EOM);

		while (b->vvs->msg_count && prandom_u32_state(&rnd) % 4) {
			struct vsock_rx_packet pkt = {};

			packets = 0;
			KUNIT_ASSERT_GE(test, take_recv(test, a, SZ_64K, 0), 0);
			lock_sock(sk_vsock(b->vsk));
			do {
				packets += virtio_transport_rx_look(b->vsk, &pkt);
			} while (pkt.skb && !(pkt.flags & EOM));
			virtio_transport_rx_take(b->vsk, packets, 0);
			release_sock(sk_vsock(b->vsk));
		}
		take_expect_equal(test, a, b);
	}
}

/* recv(), peeks and takes in any mixture: each byte comes once. */
static void take_in_turn_with_recv(struct kunit *test)
{
	const struct take_same_param *p = test->param_value;
	struct take_end *end = take_connect(test, SOCK_STREAM, 0, p->size);
	struct rnd_state rnd;
	int i;

	prandom_seed_state(&rnd, p->packet);
	for (i = 0; i < 1000; i++) {
		u32 len = 1 + prandom_u32_state(&rnd) % p->packet;

		len = min(len, take_credit_left(end));
		if (len)
			take_arrive(test, end, len, 0);
		len = 1 + prandom_u32_state(&rnd) % p->piece;
		len = min(len, end->vvs->rx_bytes);
		switch (len ? prandom_u32_state(&rnd) % 3 : 3) {
		case 0:
			KUNIT_ASSERT_EQ(test, take_recv(test, end, len, 0), len);
			break;
		case 1:
			KUNIT_ASSERT_EQ(test, take_recv(test, end, len, MSG_PEEK),
					len);
			break;
		case 2:
			take_bytes(end, len);
			break;
		}
	}
	take_bytes(end, end->vvs->rx_bytes);
	take_expect_drained(test, end);
}

/* A peer with nothing left to send is told in time when all is taken. */
static void take_gives_credit(struct kunit *test)
{
	struct take_end *end = take_connect(test, SOCK_STREAM, 0, SZ_256K);
	int i;

	for (i = 0; i < 4; i++)
		take_arrive(test, end, SZ_64K, 0);
	KUNIT_EXPECT_EQ(test, take_credit_left(end), 0);
	take_packets(end, 4, 0);
	KUNIT_EXPECT_EQ(test, end->updates, 1);
	KUNIT_EXPECT_EQ(test, take_credit_left(end), SZ_256K);
}

static struct kunit_case take_cases[] = {
	KUNIT_CASE(take_look_at_nothing),
	KUNIT_CASE(take_look_at_a_stream),
	KUNIT_CASE(take_look_at_messages),
	KUNIT_CASE(take_look_at_flags),
	KUNIT_CASE(take_whole_packets),
	KUNIT_CASE(take_part_of_a_packet),
	KUNIT_CASE(take_nothing),
	KUNIT_CASE(take_part_of_a_message),
	KUNIT_CASE(take_messages),
	KUNIT_CASE_PARAM(take_same_as_recv, take_same_gen_params),
	KUNIT_CASE_PARAM(take_same_messages_as_recv, take_same_gen_params),
	KUNIT_CASE_PARAM(take_in_turn_with_recv, take_same_gen_params),
	KUNIT_CASE(take_gives_credit),
	{}
};

static struct kunit_suite take_suite = {
	.name = "virtio_vsock_take",
	.init = take_init,
	.exit = take_exit,
	.test_cases = take_cases,
};

kunit_test_suite(take_suite);

MODULE_DESCRIPTION("KUnit tests for receive from virtio vsock in two steps");
MODULE_LICENSE("GPL");
