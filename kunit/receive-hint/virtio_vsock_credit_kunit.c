// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for the credit that a receiving virtio vsock socket gives back to
 * its peer: an update is sent when the peer could be stuck without it, and not
 * otherwise.
 *
 * The suite is the peer. It hands packets to the real receive path, within the
 * credit that it was given, and sees what comes back in a transport's
 * send_pkt(). It counts its credit as a Linux peer does, that is, it never has
 * more on its way than its own buffer size, or as another peer may, that does
 * not mind its own buffer size.
 */
#include <kunit/test.h>
#include <linux/limits.h>
#include <linux/prandom.h>
#include <linux/virtio_vsock.h>
#include <net/af_vsock.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#define PEER_CID	5
#define PEER_PORT	5000
#define OWN_CID		42
#define OWN_PORT	1234

#define PKT_MAX		VIRTIO_VSOCK_MAX_PKT_BUF_SIZE

struct credit_ctx {
	struct socket *sock;
	struct vsock_sock *vsk;
	struct virtio_vsock_sock *vvs;
	u8 *scratch;		/* PKT_MAX bytes to receive into */
	/* The peer. */
	u32 peer_buf_alloc;
	bool unlimited;		/* does not mind its own buffer size */
	u32 sent;
	u32 told_fwd_cnt;
	u32 told_buf_alloc;
	int updates;
	/* The last packet to the peer, while it is on its way. */
	bool slow;
	bool on_its_way;
	u32 next_fwd_cnt;
	u32 next_buf_alloc;
};

/* send_pkt() is not told whom it works for. Suites run one after the other. */
static struct credit_ctx *credit_peer;

static void credit_deliver(struct credit_ctx *ctx)
{
	if (!ctx->on_its_way)
		return;

	ctx->told_fwd_cnt = ctx->next_fwd_cnt;
	ctx->told_buf_alloc = ctx->next_buf_alloc;
	ctx->on_its_way = false;
}

static int credit_send_pkt(struct sk_buff *skb, struct net *net)
{
	struct virtio_vsock_hdr *hdr = virtio_vsock_hdr(skb);
	struct credit_ctx *ctx = credit_peer;
	int len = skb->len;

	ctx->next_fwd_cnt = le32_to_cpu(hdr->fwd_cnt);
	ctx->next_buf_alloc = le32_to_cpu(hdr->buf_alloc);
	ctx->on_its_way = true;
	if (!ctx->slow)
		credit_deliver(ctx);
	if (le16_to_cpu(hdr->op) == VIRTIO_VSOCK_OP_CREDIT_UPDATE)
		ctx->updates++;
	kfree_skb(skb);

	return len;
}

static u32 credit_get_local_cid(void)
{
	return OWN_CID;
}

static struct virtio_transport credit_transport = {
	.transport = {
		.get_local_cid = credit_get_local_cid,
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
		.notify_buffer_size = virtio_transport_notify_buffer_size,
		.notify_set_rcvlowat = virtio_transport_notify_set_rcvlowat,
	},
	.send_pkt = credit_send_pkt,
};

static int credit_init(struct kunit *test)
{
	struct credit_ctx *ctx = kunit_kzalloc(test, sizeof(*ctx), GFP_KERNEL);

	if (!ctx)
		return -ENOMEM;
	test->priv = ctx;
	credit_peer = ctx;

	ctx->scratch = kunit_kzalloc(test, PKT_MAX, GFP_KERNEL);

	return ctx->scratch ? 0 : -ENOMEM;
}

static void credit_exit(struct kunit *test)
{
	struct credit_ctx *ctx = test->priv;

	if (!ctx || !ctx->sock)
		return;

	if (ctx->vvs) {
		lock_sock(sk_vsock(ctx->vsk));
		vsock_remove_sock(ctx->vsk);
		__skb_queue_purge(&ctx->vvs->rx_queue);
		virtio_transport_destruct(ctx->vsk);
		ctx->vsk->transport = NULL;
		sk_vsock(ctx->vsk)->sk_state = TCP_CLOSE;
		ctx->sock->state = SS_UNCONNECTED;
		release_sock(sk_vsock(ctx->vsk));
	}
	sock_release(ctx->sock);
}

/* Connect a socket to the peer. Buffer sizes are in bytes, ours and the peer's. */
static struct credit_ctx *credit_connect(struct kunit *test, int type, u32 own,
					 u32 peer)
{
	struct credit_ctx *ctx = test->priv;
	struct vsock_sock *vsk;

	KUNIT_ASSERT_EQ(test, sock_create_kern(&init_net, AF_VSOCK, type, 0,
					       &ctx->sock), 0);
	vsk = vsock_sk(ctx->sock->sk);
	ctx->vsk = vsk;
	vsk->buffer_min_size = 1;
	vsk->buffer_max_size = U32_MAX;
	vsk->buffer_size = own;
	KUNIT_ASSERT_EQ(test, virtio_transport_do_socket_init(vsk, NULL), 0);
	ctx->vvs = vsk->trans;
	ctx->vvs->peer_buf_alloc = peer;
	ctx->peer_buf_alloc = peer;
	ctx->told_buf_alloc = own;
	/* The counters wrap in the middle of a case. */
	ctx->sent = U32_MAX - SZ_32K;
	ctx->told_fwd_cnt = ctx->sent;
	ctx->vvs->fwd_cnt = ctx->sent;
	ctx->vvs->last_fwd_cnt = ctx->sent;

	lock_sock(sk_vsock(vsk));
	vsk->transport = &credit_transport.transport;
	vsock_addr_init(&vsk->local_addr, OWN_CID, OWN_PORT);
	vsock_addr_init(&vsk->remote_addr, PEER_CID, PEER_PORT);
	sk_vsock(vsk)->sk_state = TCP_ESTABLISHED;
	ctx->sock->state = SS_CONNECTED;
	vsock_insert_connected(vsk);
	release_sock(sk_vsock(vsk));

	return ctx;
}

/* Let the peer send one packet. */
static void credit_peer_packet(struct kunit *test, u16 op, u32 len, u32 flags)
{
	struct credit_ctx *ctx = test->priv;
	struct virtio_vsock_hdr *hdr;
	struct sk_buff *skb;

	skb = virtio_vsock_alloc_skb(VIRTIO_VSOCK_SKB_HEADROOM + len, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, skb);
	hdr = virtio_vsock_hdr(skb);
	memset(hdr, 0, sizeof(*hdr));
	hdr->src_cid = cpu_to_le64(PEER_CID);
	hdr->dst_cid = cpu_to_le64(OWN_CID);
	hdr->src_port = cpu_to_le32(PEER_PORT);
	hdr->dst_port = cpu_to_le32(OWN_PORT);
	hdr->len = cpu_to_le32(len);
	hdr->type = cpu_to_le16(sk_vsock(ctx->vsk)->sk_type == SOCK_STREAM ?
				VIRTIO_VSOCK_TYPE_STREAM :
				VIRTIO_VSOCK_TYPE_SEQPACKET);
	hdr->op = cpu_to_le16(op);
	hdr->flags = cpu_to_le32(flags);
	hdr->buf_alloc = cpu_to_le32(ctx->peer_buf_alloc);
	virtio_vsock_skb_put(skb, len);
	if (!skb_is_nonlinear(skb))
		memset(skb->data, 0, len);
	ctx->sent += len;

	virtio_transport_recv_pkt(&credit_transport, skb, &init_net);
}

static u32 credit_left(const struct credit_ctx *ctx)
{
	u32 window = ctx->told_buf_alloc;

	if (!ctx->unlimited)
		window = min(window, ctx->peer_buf_alloc);

	return max_t(s64, (s64)window - (u32)(ctx->sent - ctx->told_fwd_cnt), 0);
}

/* Too many small packets end a connection, whatever the credit. */
static bool credit_queue_full(const struct credit_ctx *ctx)
{
	return (skb_queue_len(&ctx->vvs->rx_queue) + 1) * SKB_TRUESIZE(0) >
	       ctx->vvs->buf_alloc;
}

/* Let the peer send @len bytes, as far as its credit goes: bytes sent. */
static u32 credit_peer_send(struct kunit *test, u32 len, u32 flags)
{
	struct credit_ctx *ctx = test->priv;
	u32 total = 0;

	while (total < len && !credit_queue_full(ctx)) {
		u32 pkt = min3(len - total, credit_left(ctx), (u32)PKT_MAX);

		if (!pkt)
			break;
		total += pkt;
		credit_peer_packet(test, VIRTIO_VSOCK_OP_RW, pkt,
				   total == len ? flags : 0);
	}

	return total;
}

static void credit_peer_set_buffer(struct kunit *test, u32 size)
{
	struct credit_ctx *ctx = test->priv;

	ctx->peer_buf_alloc = size;
	credit_peer_packet(test, VIRTIO_VSOCK_OP_CREDIT_UPDATE, 0, 0);
}

static int credit_recv(struct credit_ctx *ctx, u32 len)
{
	struct kvec vec = { .iov_base = ctx->scratch, .iov_len = len };
	struct msghdr msg = {};

	return kernel_recvmsg(ctx->sock, &msg, &vec, 1, len, MSG_DONTWAIT);
}

static int credit_set_rcvlowat(struct credit_ctx *ctx, int val)
{
	struct sock *sk = sk_vsock(ctx->vsk);
	int ret;

	lock_sock(sk);
	ret = virtio_transport_notify_set_rcvlowat(ctx->vsk, val);
	WRITE_ONCE(sk->sk_rcvlowat, val);
	release_sock(sk);

	return ret;
}

static int credit_set_buffer(struct credit_ctx *ctx, u64 size)
{
	const struct proto_ops *ops = READ_ONCE(ctx->sock->ops);

	return ops->setsockopt(ctx->sock, AF_VSOCK, SO_VM_SOCKETS_BUFFER_SIZE,
			       KERNEL_SOCKPTR(&size), sizeof(size));
}

/* A ping and a receive that empties the queue. */
static void credit_stream_drained(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_STREAM, SZ_256K, SZ_256K);

	credit_peer_send(test, 4096, 0);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, 4096), 4096);
	KUNIT_EXPECT_EQ(test, ctx->updates, 0);
}

/* Half of the window is what the peer need not know of. */
static void credit_stream_half_the_window(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_STREAM, SZ_256K, SZ_256K);

	credit_peer_send(test, SZ_128K, 0);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, SZ_64K), SZ_64K);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, SZ_64K), SZ_64K);
	KUNIT_EXPECT_EQ(test, ctx->updates, 0);

	credit_peer_send(test, 1, 0);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, 1), 1);
	KUNIT_EXPECT_EQ(test, ctx->updates, 1);
	KUNIT_EXPECT_EQ(test, credit_left(ctx), SZ_256K);
}

static void credit_stream_small_buffer(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_STREAM, SZ_16K, SZ_256K);

	credit_peer_send(test, SZ_8K, 0);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, SZ_8K), SZ_8K);
	KUNIT_EXPECT_EQ(test, ctx->updates, 0);

	credit_peer_send(test, 1, 0);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, 1), 1);
	KUNIT_EXPECT_EQ(test, ctx->updates, 1);
}

/* Who sends before it reads can send a whole window. */
static void credit_stream_whole_window_unread(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_STREAM, SZ_256K, SZ_256K);

	credit_peer_send(test, 4096, 0);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, 4096), 4096);
	KUNIT_EXPECT_EQ(test, ctx->updates, 0);

	KUNIT_EXPECT_EQ(test, credit_peer_send(test, SZ_256K, 0), SZ_256K);
	KUNIT_EXPECT_EQ(test, ctx->updates, 1);
}

/* The same for a peer that has filled its own buffer size long before. */
static void credit_stream_whole_window_unlimited_peer(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_STREAM, SZ_256K, SZ_64K);

	ctx->unlimited = true;
	credit_peer_send(test, 4096, 0);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, 4096), 4096);
	KUNIT_EXPECT_EQ(test, ctx->updates, 0);

	KUNIT_EXPECT_EQ(test, credit_peer_send(test, SZ_256K, 0), SZ_256K);
}

/* The peer's own buffer limits what it sends, too. */
static void credit_stream_small_peer_buffer(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_STREAM, SZ_256K, SZ_16K);

	KUNIT_EXPECT_EQ(test, credit_peer_send(test, SZ_64K, 0), SZ_16K);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, SZ_64K), SZ_16K);
	KUNIT_EXPECT_GE(test, credit_left(ctx), 1);
}

/* The peer's window shrinks to less than what it was not told of. */
static void credit_stream_peer_shrinks_buffer(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_STREAM, SZ_256K, SZ_256K);

	credit_peer_send(test, SZ_64K, 0);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, SZ_64K), SZ_64K);
	KUNIT_EXPECT_EQ(test, ctx->updates, 0);

	credit_peer_set_buffer(test, SZ_32K);
	KUNIT_EXPECT_EQ(test, credit_left(ctx), SZ_32K);
}

/* So does what is unread and what is owed together. */
static void credit_stream_peer_shrinks_buffer_to_less(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_STREAM, SZ_256K, SZ_256K);

	credit_peer_send(test, 6 * SZ_1K, 0);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, SZ_64K), 6 * SZ_1K);
	credit_peer_send(test, 12 * SZ_1K, 0);
	KUNIT_EXPECT_EQ(test, ctx->updates, 0);

	credit_peer_set_buffer(test, SZ_16K);
	KUNIT_EXPECT_EQ(test, credit_left(ctx), SZ_4K);
}

/* An answer to an update that changes nothing would be answered for ever. */
static void credit_stream_update_is_not_answered(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_STREAM, SZ_256K, SZ_16K);

	credit_peer_set_buffer(test, SZ_16K);
	credit_peer_set_buffer(test, SZ_4K);
	KUNIT_EXPECT_EQ(test, ctx->updates, 0);
}

static void credit_stream_own_buffer_shrinks(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_STREAM, SZ_256K, SZ_256K);

	credit_peer_send(test, SZ_64K, 0);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, SZ_64K), SZ_64K);
	KUNIT_EXPECT_EQ(test, credit_set_buffer(ctx, SZ_8K), 0);
	KUNIT_EXPECT_EQ(test, credit_left(ctx), SZ_8K);
}

/* Credit and queue do not reach the low-water mark that they reached before. */
static void credit_stream_low_water_mark(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_STREAM, SZ_256K, SZ_256K);
	u32 mark = SZ_256K - SZ_32K;

	KUNIT_ASSERT_EQ(test, credit_set_rcvlowat(ctx, mark), 0);
	credit_peer_send(test, mark, 0);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, SZ_32K), SZ_32K);
	KUNIT_EXPECT_EQ(test, ctx->updates, 0);
	/* The first packet goes, and with it 64 KiB of the window. */
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, SZ_32K), SZ_32K);
	KUNIT_EXPECT_EQ(test, ctx->updates, 1);
	KUNIT_EXPECT_EQ(test, credit_left(ctx) + ctx->vvs->rx_bytes, SZ_256K);
}

/* A mark that is raised after the fact. */
static void credit_stream_low_water_mark_raised(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_STREAM, SZ_256K, SZ_256K);

	credit_peer_send(test, SZ_64K, 0);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, SZ_64K), SZ_64K);
	KUNIT_EXPECT_EQ(test, ctx->updates, 0);
	KUNIT_ASSERT_EQ(test, credit_set_rcvlowat(ctx, SZ_256K - SZ_4K), 0);
	KUNIT_EXPECT_EQ(test, credit_left(ctx), SZ_256K);
}

/* A small window is known to be all used up, and something of it is free. */
static void credit_stream_small_window_used_up(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_STREAM, SZ_64K, SZ_64K);
	int i;

	for (i = 0; i < 16; i++)
		credit_peer_send(test, SZ_4K, 0);
	KUNIT_EXPECT_EQ(test, credit_left(ctx), 0);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, SZ_4K), SZ_4K);
	KUNIT_EXPECT_EQ(test, credit_left(ctx), SZ_4K);
}

/* Nothing is put off, and nothing owed, as long as lots of space is free. */
static void credit_stream_not_drained(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_STREAM, SZ_256K, SZ_64K);
	int i;

	/* A peer that goes past its own buffer size, and is not starved. */
	ctx->unlimited = true;
	credit_peer_send(test, SZ_128K, 0);
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, credit_recv(ctx, SZ_64K), SZ_64K);
		credit_peer_send(test, SZ_64K, 0);
	}
	KUNIT_EXPECT_EQ(test, ctx->updates, 0);
}

/* What is read of a packet returns no credit before all of it is read. */
static void credit_stream_partly_read_packet(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_STREAM, SZ_256K, SZ_256K);

	WRITE_ONCE(sk_vsock(ctx->vsk)->sk_rcvlowat, SZ_128K + SZ_16K);
	credit_peer_send(test, SZ_128K, 0);
	/* 64 KiB untold, and half of the other packet is read. */
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, SZ_64K), SZ_64K);
	KUNIT_EXPECT_EQ(test, ctx->updates, 0);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, SZ_32K), SZ_32K);
	KUNIT_EXPECT_EQ(test, ctx->updates, 0);
	/* 128 KiB can be sent and 32 KiB are queued: one byte too many goes. */
	WRITE_ONCE(sk_vsock(ctx->vsk)->sk_rcvlowat, SZ_128K + SZ_32K);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, 1), 1);
	KUNIT_EXPECT_EQ(test, ctx->updates, 1);
}

static void credit_seqpacket_drained(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_SEQPACKET, SZ_256K,
						SZ_256K);

	credit_peer_send(test, 4096, VIRTIO_VSOCK_SEQ_EOM);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, 4096), 4096);
	KUNIT_EXPECT_EQ(test, ctx->updates, 0);
}

static void credit_seqpacket_sixteenth_of_the_window(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_SEQPACKET, SZ_256K,
						SZ_256K);
	int i;

	for (i = 0; i < 4; i++) {
		credit_peer_send(test, SZ_4K, VIRTIO_VSOCK_SEQ_EOM);
		KUNIT_EXPECT_EQ(test, credit_recv(ctx, SZ_4K), SZ_4K);
	}
	KUNIT_EXPECT_EQ(test, ctx->updates, 0);

	credit_peer_send(test, 1, VIRTIO_VSOCK_SEQ_EOM);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, 1), 1);
	KUNIT_EXPECT_EQ(test, ctx->updates, 1);
}

/* Messages, too, wake up a reader by the bytes that are queued. */
static void credit_seqpacket_low_water_mark(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_SEQPACKET, SZ_256K,
						SZ_256K);

	KUNIT_ASSERT_EQ(test, credit_set_rcvlowat(ctx, SZ_256K - SZ_4K), 0);
	credit_peer_send(test, SZ_8K, VIRTIO_VSOCK_SEQ_EOM);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, SZ_8K), SZ_8K);
	KUNIT_EXPECT_EQ(test, ctx->updates, 1);
}

/* A window that was large enough for the message becomes just so. */
static void credit_seqpacket_peer_shrinks_buffer(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_SEQPACKET, SZ_256K,
						SZ_256K);

	credit_peer_send(test, 5000, VIRTIO_VSOCK_SEQ_EOM);
	credit_peer_send(test, 108000, 0);
	credit_peer_set_buffer(test, 110000);
	KUNIT_EXPECT_EQ(test, credit_left(ctx), 0);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, 5000), 5000);
	KUNIT_EXPECT_EQ(test, credit_peer_send(test, 2000,
					       VIRTIO_VSOCK_SEQ_EOM), 2000);
	KUNIT_EXPECT_EQ(test, ctx->vvs->msg_count, 1);
}

/* A message that needs the whole window follows one that used some of it. */
static void credit_seqpacket_largest_message(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_SEQPACKET, SZ_256K,
						SZ_256K);

	credit_peer_send(test, 4096, VIRTIO_VSOCK_SEQ_EOM);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, 4096), 4096);
	KUNIT_EXPECT_EQ(test, ctx->updates, 0);

	KUNIT_EXPECT_EQ(test, credit_peer_send(test, SZ_256K,
					       VIRTIO_VSOCK_SEQ_EOM), SZ_256K);
	KUNIT_EXPECT_EQ(test, ctx->updates, 1);
	KUNIT_EXPECT_EQ(test, ctx->vvs->msg_count, 1);
}

/* The start of such a message is behind the one that is read. */
static void credit_seqpacket_largest_message_begun(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_SEQPACKET, SZ_256K,
						SZ_256K);
	u32 begun;

	credit_peer_send(test, 4096, VIRTIO_VSOCK_SEQ_EOM);
	begun = credit_peer_send(test, SZ_256K, VIRTIO_VSOCK_SEQ_EOM);
	KUNIT_EXPECT_EQ(test, begun, SZ_256K - 4096);
	KUNIT_EXPECT_EQ(test, credit_recv(ctx, 4096), 4096);
	KUNIT_EXPECT_EQ(test, credit_peer_send(test, SZ_256K - begun,
					       VIRTIO_VSOCK_SEQ_EOM), 4096);
	KUNIT_EXPECT_EQ(test, ctx->vvs->msg_count, 1);
}

static void credit_seqpacket_small_peer_buffer(struct kunit *test)
{
	struct credit_ctx *ctx = credit_connect(test, SOCK_SEQPACKET, SZ_256K,
						SZ_8K);
	int i;

	for (i = 0; i < 100; i++) {
		KUNIT_ASSERT_EQ(test, credit_peer_send(test, SZ_8K,
						       VIRTIO_VSOCK_SEQ_EOM),
				SZ_8K);
		KUNIT_ASSERT_EQ(test, credit_recv(ctx, SZ_8K), SZ_8K);
	}
}

/*
 * Random sizes of everything for a long time, with answers to the peer that
 * take their time. The peer is stuck if it has no credit, the receiver is not
 * woken up, and space that was freed would let the peer go on if it heard of it.
 */
struct credit_random_param {
	const char *desc;
	int type;
	bool unlimited;
	int seed;
};

static const struct credit_random_param credit_random_params[] = {
	{ "stream 1", SOCK_STREAM, false, 1 },
	{ "stream 2", SOCK_STREAM, false, 2 },
	{ "stream 3, unlimited peer", SOCK_STREAM, true, 3 },
	{ "stream 4, unlimited peer", SOCK_STREAM, true, 4 },
	{ "seqpacket 1", SOCK_SEQPACKET, false, 1 },
	{ "seqpacket 2", SOCK_SEQPACKET, false, 2 },
	{ "seqpacket 3, unlimited peer", SOCK_SEQPACKET, true, 3 },
	{ "seqpacket 4, unlimited peer", SOCK_SEQPACKET, true, 4 },
};

KUNIT_ARRAY_PARAM_DESC(credit_random, credit_random_params, desc);

static u32 credit_random_size(struct rnd_state *rnd, u32 max)
{
	/* As many small ones as large ones. */
	u32 order = 1 + prandom_u32_state(rnd) % fls(max);

	return 1 + prandom_u32_state(rnd) % min(max, 1U << order);
}

static void credit_random_never_stuck(struct kunit *test)
{
	const struct credit_random_param *p = test->param_value;
	struct credit_ctx *ctx = credit_connect(test, p->type, SZ_256K, SZ_256K);
	u32 eom = p->type == SOCK_STREAM ? 0 : VIRTIO_VSOCK_SEQ_EOM;
	struct virtio_vsock_sock *vvs = ctx->vvs;
	struct sock *sk = sk_vsock(ctx->vsk);
	u32 least = 0;	/* A message that was begun still has to fit. */
	struct rnd_state rnd;
	u32 rest = 0, size;
	bool readable;
	u64 sent = 0;
	int i;

	ctx->unlimited = p->unlimited;
	prandom_seed_state(&rnd, p->seed);

	for (i = 0; i < 100000; i++) {
		u32 window = min(vvs->buf_alloc, ctx->peer_buf_alloc);

		switch (prandom_u32_state(&rnd) % 64) {
		case 0:
			/* A peer that does not know yet breaks the rules. */
			ctx->slow = false;
			size = SZ_1K + credit_random_size(&rnd, SZ_512K);
			KUNIT_ASSERT_EQ(test, credit_set_buffer(ctx,
								max(size, least)),
					0);
			break;
		case 1:
			size = SZ_1K + credit_random_size(&rnd, SZ_512K);
			credit_peer_set_buffer(test, max(size, least));
			break;
		case 2:
			size = credit_random_size(&rnd, window);
			KUNIT_ASSERT_EQ(test, credit_set_rcvlowat(ctx, size), 0);
			break;
		case 3:
			ctx->slow = !ctx->slow;
			break;
		case 4 ... 7:
			credit_deliver(ctx);
			break;
		case 8 ... 31:
			if (!rest) {
				rest = credit_random_size(&rnd, window);
				least = eom ? rest : 0;
			}
			size = credit_peer_send(test, rest, eom);
			sent += size;
			rest -= size;
			if (!rest)
				least = 0;
			/* Nothing is owed to a peer that is out of credit. */
			if (size && !credit_left(ctx) && !ctx->on_its_way)
				KUNIT_ASSERT_FALSE_MSG(test, vvs->credit_owed,
						       "starved at step %d", i);
			break;
		default:
			credit_recv(ctx, credit_random_size(&rnd, PKT_MAX));
			break;
		}
		KUNIT_ASSERT_EQ_MSG(test, sk->sk_err, 0, "step %d", i);

		readable = vvs->rx_bytes >= (u32)sk->sk_rcvlowat &&
			   (!eom || vvs->msg_count);
		if (!readable && !credit_left(ctx) && !ctx->on_its_way)
			KUNIT_ASSERT_EQ_MSG(test, vvs->fwd_cnt, ctx->told_fwd_cnt,
					    "stuck at step %d", i);
	}

	/* It was not idle. */
	KUNIT_EXPECT_GT(test, sent, SZ_4M);
}

static struct kunit_case credit_cases[] = {
	KUNIT_CASE(credit_stream_drained),
	KUNIT_CASE(credit_stream_half_the_window),
	KUNIT_CASE(credit_stream_small_buffer),
	KUNIT_CASE(credit_stream_whole_window_unread),
	KUNIT_CASE(credit_stream_whole_window_unlimited_peer),
	KUNIT_CASE(credit_stream_small_peer_buffer),
	KUNIT_CASE(credit_stream_peer_shrinks_buffer),
	KUNIT_CASE(credit_stream_peer_shrinks_buffer_to_less),
	KUNIT_CASE(credit_stream_update_is_not_answered),
	KUNIT_CASE(credit_stream_own_buffer_shrinks),
	KUNIT_CASE(credit_stream_low_water_mark),
	KUNIT_CASE(credit_stream_low_water_mark_raised),
	KUNIT_CASE(credit_stream_small_window_used_up),
	KUNIT_CASE(credit_stream_not_drained),
	KUNIT_CASE(credit_stream_partly_read_packet),
	KUNIT_CASE(credit_seqpacket_drained),
	KUNIT_CASE(credit_seqpacket_sixteenth_of_the_window),
	KUNIT_CASE(credit_seqpacket_low_water_mark),
	KUNIT_CASE(credit_seqpacket_peer_shrinks_buffer),
	KUNIT_CASE(credit_seqpacket_largest_message),
	KUNIT_CASE(credit_seqpacket_largest_message_begun),
	KUNIT_CASE(credit_seqpacket_small_peer_buffer),
	KUNIT_CASE_PARAM(credit_random_never_stuck, credit_random_gen_params),
	{}
};

static struct kunit_suite credit_suite = {
	.name = "virtio_vsock_credit",
	.init = credit_init,
	.exit = credit_exit,
	.test_cases = credit_cases,
};

kunit_test_suite(credit_suite);

MODULE_DESCRIPTION("KUnit tests for the credit updates of virtio vsock");
MODULE_LICENSE("GPL");
