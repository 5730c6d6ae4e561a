// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for the buffers that virtio vsock receives into: where the payload
 * lies, what is kept and what is moved, what a device or a peer may claim, and
 * what the receive path makes of it.
 *
 * The suite is the device: it allocates a receive buffer, writes a packet to it,
 * takes the packet out and hands it to the real receive path. It is the peer in
 * memory that a host reads, and it is a transport, which sees what is sent.
 *
 * Each byte of payload says where in the connection it belongs.
 */
#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/prandom.h>
#include <linux/uio.h>
#include <linux/virtio_vsock.h>
#include <net/af_vsock.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#define PEER_CID	5
#define PEER_PORT	5000
#define OWN_CID		42
#define OWN_PORT	1234

#define PKT_MAX		VIRTIO_VSOCK_MAX_PKT_BUF_SIZE
#define HDR_LEN		VIRTIO_VSOCK_SKB_HEADROOM
#define FOLIO		(PAGE_SIZE << VIRTIO_VSOCK_RX_ORDER)
/* The most that a linear receive buffer has room for. */
#define LINEAR		(VIRTIO_VSOCK_DEFAULT_RX_BUF_SIZE - HDR_LEN)
#define EOM		VIRTIO_VSOCK_SEQ_EOM
#define EOR		VIRTIO_VSOCK_SEQ_EOR

struct rx_ctx {
	struct socket *sock;
	struct vsock_sock *vsk;
	struct virtio_vsock_sock *vvs;
	u8 *scratch;		/* PKT_MAX + HDR_LEN bytes */
	bool key_was_on;
	u32 sent;		/* bytes of payload, and where the next belongs */
	u32 received;
	int max_order;		/* that the page allocator has */
	struct sk_buff *last_sent;
};

/* send_pkt() is not told whom it works for. Suites run one after the other. */
static struct rx_ctx *rx_peer;

static int rx_send_pkt(struct sk_buff *skb, struct net *net)
{
	int len = skb->len;

	kfree_skb(rx_peer->last_sent);
	rx_peer->last_sent = skb;

	return len;
}

static u32 rx_get_local_cid(void)
{
	return OWN_CID;
}

static struct virtio_transport rx_transport = {
	.transport = {
		.get_local_cid = rx_get_local_cid,
		.destruct = virtio_transport_destruct,
		.stream_dequeue = virtio_transport_stream_dequeue,
		.stream_has_data = virtio_transport_stream_has_data,
		.stream_has_space = virtio_transport_stream_has_space,
		.stream_rcvhiwat = virtio_transport_stream_rcvhiwat,
		.stream_is_active = virtio_transport_stream_is_active,
		.seqpacket_dequeue = virtio_transport_seqpacket_dequeue,
		.seqpacket_has_data = virtio_transport_seqpacket_has_data,
		.notify_poll_in = virtio_transport_notify_poll_in,
		.notify_poll_out = virtio_transport_notify_poll_out,
		.notify_recv_init = virtio_transport_notify_recv_init,
		.notify_recv_pre_block = virtio_transport_notify_recv_pre_block,
		.notify_recv_pre_dequeue = virtio_transport_notify_recv_pre_dequeue,
		.notify_recv_post_dequeue = virtio_transport_notify_recv_post_dequeue,
		.notify_buffer_size = virtio_transport_notify_buffer_size,
		.notify_set_rcvlowat = virtio_transport_notify_set_rcvlowat,
	},
	.send_pkt = rx_send_pkt,
};

static void rx_key(bool on)
{
	if (on)
		static_branch_enable(&vsock_zerocopy_key);
	else
		static_branch_disable(&vsock_zerocopy_key);
}

static int rx_init(struct kunit *test)
{
	struct rx_ctx *ctx;

	if (PAGE_SHIFT != 12)
		kunit_skip(test, "needs pages of 4 KiB");

	ctx = kunit_kzalloc(test, sizeof(*ctx), GFP_KERNEL);
	if (!ctx)
		return -ENOMEM;
	ctx->key_was_on = static_key_enabled(&vsock_zerocopy_key);
	ctx->scratch = kunit_kzalloc(test, PKT_MAX + HDR_LEN, GFP_KERNEL);
	if (!ctx->scratch)
		return -ENOMEM;
	rx_peer = ctx;
	test->priv = ctx;
	rx_transport.rx_is_tx = false;
	rx_key(true);

	return 0;
}

static void rx_exit(struct kunit *test)
{
	struct rx_ctx *ctx = test->priv;

	if (!ctx)
		return;

	rx_key(ctx->key_was_on);
	kfree_skb(ctx->last_sent);
	ctx->last_sent = NULL;
	if (!ctx->sock)
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

/* Connect a socket with a receive buffer of @buf_alloc bytes to the peer. */
static struct rx_ctx *rx_connect(struct kunit *test, int type, u32 buf_alloc)
{
	struct rx_ctx *ctx = test->priv;
	struct vsock_sock *vsk;

	KUNIT_ASSERT_EQ(test, sock_create_kern(&init_net, AF_VSOCK, type, 0,
					       &ctx->sock), 0);
	vsk = vsock_sk(ctx->sock->sk);
	ctx->vsk = vsk;
	vsk->buffer_min_size = 1;
	vsk->buffer_max_size = U32_MAX;
	vsk->buffer_size = buf_alloc;
	KUNIT_ASSERT_EQ(test, virtio_transport_do_socket_init(vsk, NULL), 0);
	ctx->vvs = vsk->trans;
	ctx->vvs->peer_buf_alloc = buf_alloc;

	lock_sock(sk_vsock(vsk));
	vsk->transport = &rx_transport.transport;
	vsock_addr_init(&vsk->local_addr, OWN_CID, OWN_PORT);
	vsock_addr_init(&vsk->remote_addr, PEER_CID, PEER_PORT);
	sk_vsock(vsk)->sk_state = TCP_ESTABLISHED;
	ctx->sock->state = SS_CONNECTED;
	vsock_insert_connected(vsk);
	release_sock(sk_vsock(vsk));

	return ctx;
}

static u8 rx_byte(u32 pos)
{
	return pos ^ (pos >> 7) ^ (pos >> 15);
}

static void rx_fill(u8 *to, u32 pos, u32 len)
{
	while (len--)
		*to++ = rx_byte(pos++);
}

static bool rx_is(const u8 *from, u32 pos, u32 len)
{
	while (len--)
		if (*from++ != rx_byte(pos++))
			return false;

	return true;
}

/* Is the payload, which the fragments begin with, that of position @pos on? */
static bool rx_frags_are(struct sk_buff *skb, u32 pos)
{
	u32 left = skb->data_len;
	int i;

	for (i = 0; i < skb_shinfo(skb)->nr_frags; i++) {
		skb_frag_t *frag = &skb_shinfo(skb)->frags[i];
		u32 len = skb_frag_size(frag);

		if (len > left || !rx_is(skb_frag_address(frag), pos, len))
			return false;
		left -= len;
		pos += len;
	}

	return !left;
}

static bool rx_skb_is(struct kunit *test, struct sk_buff *skb, u32 pos)
{
	struct rx_ctx *ctx = test->priv;

	if (skb_copy_bits(skb, 0, ctx->scratch, skb->len))
		return false;

	return rx_is(ctx->scratch, pos, skb->len);
}

static void rx_kfree_skb(void *skb)
{
	kfree_skb(skb);
}

static struct sk_buff *rx_managed(struct kunit *test, struct sk_buff *skb)
{
	KUNIT_ASSERT_NOT_NULL(test, skb);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, rx_kfree_skb, skb),
			0);

	return skb;
}

static void rx_init_hdr(struct kunit *test, struct virtio_vsock_hdr *hdr,
			u32 len, u32 flags)
{
	struct rx_ctx *ctx = test->priv;
	bool seqpacket = ctx->vsk &&
			 sk_vsock(ctx->vsk)->sk_type == SOCK_SEQPACKET;

	memset(hdr, 0, sizeof(*hdr));
	hdr->src_cid = cpu_to_le64(PEER_CID);
	hdr->dst_cid = cpu_to_le64(OWN_CID);
	hdr->src_port = cpu_to_le32(PEER_PORT);
	hdr->dst_port = cpu_to_le32(OWN_PORT);
	hdr->len = cpu_to_le32(len);
	hdr->type = cpu_to_le16(seqpacket ? VIRTIO_VSOCK_TYPE_SEQPACKET :
					    VIRTIO_VSOCK_TYPE_STREAM);
	hdr->op = cpu_to_le16(VIRTIO_VSOCK_OP_RW);
	hdr->flags = cpu_to_le32(flags);
	hdr->buf_alloc = cpu_to_le32(U32_MAX);
}

/* Where the device writes payload to. */
static u8 *rx_buf_payload(struct sk_buff *buf)
{
	return skb_is_nonlinear(buf) ? skb_frag_address(skb_shinfo(buf)->frags) :
				       buf->head + HDR_LEN;
}

/* The device writes a packet with the next @len bytes of the connection. */
static void rx_device_writes(struct kunit *test, struct sk_buff *buf, u32 len,
			     u32 flags)
{
	struct rx_ctx *ctx = test->priv;

	rx_init_hdr(test, virtio_vsock_hdr(buf), len, flags);
	rx_fill(rx_buf_payload(buf), ctx->sent, len);
	ctx->sent += len;
}

/* Receive a packet as a guest does. */
static void rx_device_packet(struct kunit *test, u32 len, u32 flags)
{
	struct sk_buff *buf, *skb;

	buf = virtio_transport_alloc_rx_buf(GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, buf);
	rx_device_writes(test, buf, len, flags);
	skb = virtio_transport_rx_packet(buf, HDR_LEN + len);
	if (skb != buf)
		kfree_skb(buf);
	KUNIT_ASSERT_NOT_NULL(test, skb);
	virtio_transport_recv_pkt(&rx_transport, skb, &init_net);
}

/* As a host makes it of @size bytes of a guest's, of which @len are announced. */
static struct sk_buff *rx_guest_skb(struct kunit *test, u32 size, u32 len)
{
	struct rx_ctx *ctx = test->priv;
	struct kvec vec = { .iov_base = ctx->scratch, .iov_len = size };
	struct virtio_vsock_hdr hdr;
	struct iov_iter from;

	rx_init_hdr(test, &hdr, len, 0);
	memset(ctx->scratch, 0xaa, PKT_MAX + HDR_LEN);
	memcpy(ctx->scratch, &hdr, min_t(u32, size, HDR_LEN));
	if (size > HDR_LEN)
		rx_fill(ctx->scratch + HDR_LEN, 0, min(size - HDR_LEN, len));
	iov_iter_kvec(&from, ITER_SOURCE, &vec, 1, size);

	return virtio_transport_skb_from_iter(&from);
}

/* Receive up to @len bytes; what comes must be next. */
static int rx_recv_flags(struct kunit *test, u32 len, int flags, int *msg_flags)
{
	struct rx_ctx *ctx = test->priv;
	struct kvec vec = { .iov_base = ctx->scratch, .iov_len = len };
	struct msghdr msg = {};
	int ret;

	memset(ctx->scratch, 0, len);
	ret = kernel_recvmsg(ctx->sock, &msg, &vec, 1, len,
			     flags | MSG_DONTWAIT);
	if (ret > 0) {
		KUNIT_EXPECT_TRUE(test, rx_is(ctx->scratch, ctx->received,
					      min_t(u32, ret, len)));
		if (!(flags & MSG_PEEK))
			ctx->received += ret;
	}
	if (msg_flags)
		*msg_flags = msg.msg_flags;

	return ret;
}

static int rx_recv(struct kunit *test, u32 len)
{
	return rx_recv_flags(test, len, 0, NULL);
}

/* Nothing is queued, and all credit was given back. */
static void rx_expect_drained(struct kunit *test)
{
	struct rx_ctx *ctx = test->priv;

	KUNIT_EXPECT_EQ(test, ctx->received, ctx->sent);
	KUNIT_EXPECT_TRUE(test, skb_queue_empty(&ctx->vvs->rx_queue));
	KUNIT_EXPECT_EQ(test, ctx->vvs->rx_bytes, 0);
	KUNIT_EXPECT_EQ(test, ctx->vvs->buf_used, 0);
	KUNIT_EXPECT_EQ(test, ctx->vvs->fwd_cnt, ctx->sent);
	KUNIT_EXPECT_EQ(test, ctx->vvs->msg_count, 0);
	KUNIT_EXPECT_EQ(test, vsock_stream_has_data(ctx->vsk), 0);
}

static u64 rx_queue_truesize(const struct rx_ctx *ctx)
{
	struct sk_buff *skb;
	u64 sum = 0;

	skb_queue_walk(&ctx->vvs->rx_queue, skb)
		sum += skb->truesize;

	return sum;
}

/* Take @len bytes of the first packet, as zero-copy receive does. */
static void rx_take(struct kunit *test, u32 len)
{
	struct rx_ctx *ctx = test->priv;
	struct sk_buff *skb = skb_peek(&ctx->vvs->rx_queue);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	KUNIT_ASSERT_LT(test, VIRTIO_VSOCK_SKB_CB(skb)->offset + len, skb->len);

	spin_lock_bh(&ctx->vvs->rx_lock);
	VIRTIO_VSOCK_SKB_CB(skb)->offset += len;
	ctx->vvs->rx_bytes -= len;
	spin_unlock_bh(&ctx->vvs->rx_lock);
	ctx->received += len;
}

static struct page *rx_alloc_rx_pages(unsigned int order, gfp_t gfp)
{
	if ((int)order > rx_peer->max_order)
		return NULL;

	return alloc_pages(gfp | (order ? __GFP_COMP : 0), order);
}

static struct sk_buff *rx_alloc_moved_fails(u32 payload_len, gfp_t gfp)
{
	return NULL;
}

/* Where payload of each length lies, as the orders of its folios. */
static const struct rx_layout {
	u32 len;
	int nr;
	int orders[4];
} rx_layouts[] = {
	{ 0 },
	{ 1 },
	{ 4095 },
	{ 4096 },
	{ 4097 },
	{ 8200 },
	{ SZ_32K - SZ_1K },
	/* Does not fit into a linear skb, with or without the key. */
	{ SZ_32K - 1, 1, { 3 } },
	{ SZ_32K, 1, { 3 } },
	{ SZ_32K + 1, 2, { 3, 0 } },
	{ SZ_32K + SZ_16K + SZ_8K + 1, 4, { 3, 2, 1, 0 } },
	{ SZ_64K - 4096, 4, { 3, 2, 1, 0 } },
	{ SZ_64K - 4095, 1, { 4 } },
	{ SZ_64K, 1, { 4 } },
};

static void rx_layout_desc(const struct rx_layout *l, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u bytes", l->len);
}

KUNIT_ARRAY_PARAM(rx_layout, rx_layouts, rx_layout_desc);

static void rx_expect_layout(struct kunit *test, struct sk_buff *skb,
			     const struct rx_layout *l)
{
	u32 truesize = SKB_TRUESIZE(skb_end_offset(skb)), left = l->len;
	struct skb_shared_info *si = skb_shinfo(skb);
	int i;

	KUNIT_EXPECT_EQ(test, skb->len, l->len);
	KUNIT_EXPECT_EQ(test, skb_headroom(skb), HDR_LEN);
	KUNIT_EXPECT_EQ(test, skb->data_len, l->nr ? l->len : 0);
	KUNIT_ASSERT_EQ(test, si->nr_frags, l->nr);

	for (i = 0; i < l->nr; i++) {
		struct page *page = skb_frag_page(&si->frags[i]);
		u32 size = PAGE_SIZE << l->orders[i];

		KUNIT_EXPECT_EQ(test, skb_frag_off(&si->frags[i]), 0);
		KUNIT_EXPECT_EQ(test, skb_frag_size(&si->frags[i]),
				min(left, size));
		KUNIT_EXPECT_EQ(test, compound_order(page), l->orders[i]);
		KUNIT_EXPECT_EQ(test, page_count(page), 1);
		left -= skb_frag_size(&si->frags[i]);
		truesize += size;
	}
	KUNIT_EXPECT_EQ(test, skb->truesize, truesize);
}

static void rx_layout_of_length(struct kunit *test)
{
	const struct rx_layout *l = test->param_value;
	struct rx_ctx *ctx = test->priv;
	struct sk_buff *skb;

	skb = rx_managed(test, virtio_vsock_alloc_rx_skb(l->len, GFP_KERNEL));
	virtio_vsock_skb_put(skb, l->len);
	rx_expect_layout(test, skb, l);

	rx_fill(ctx->scratch, 0, l->len);
	KUNIT_EXPECT_EQ(test, skb_store_bits(skb, 0, ctx->scratch, l->len), 0);
	KUNIT_EXPECT_TRUE(test, rx_frags_are(skb, 0));
}

/* Without the key nothing is as it was not before. */
static void rx_layout_key_off(struct kunit *test)
{
	const struct rx_layout *l = test->param_value;
	struct sk_buff *skb, *old;

	rx_key(false);
	skb = rx_managed(test, virtio_vsock_alloc_rx_skb(l->len, GFP_KERNEL));
	old = rx_managed(test, virtio_vsock_alloc_skb(HDR_LEN + l->len,
						      GFP_KERNEL));
	KUNIT_EXPECT_EQ(test, skb->truesize, old->truesize);
	KUNIT_EXPECT_EQ(test, skb->data_len, old->data_len);
	KUNIT_EXPECT_EQ(test, skb_shinfo(skb)->nr_frags, skb_shinfo(old)->nr_frags);
	KUNIT_EXPECT_EQ(test, skb_tailroom(skb), skb_tailroom(old));
	KUNIT_EXPECT_EQ(test, skb_is_nonlinear(skb),
			HDR_LEN + l->len >
			SKB_WITH_OVERHEAD(PAGE_SIZE << PAGE_ALLOC_COSTLY_ORDER));
}

static void rx_layout_from_guest(struct kunit *test)
{
	const struct rx_layout *l = test->param_value;
	struct sk_buff *skb;

	skb = rx_managed(test, rx_guest_skb(test, HDR_LEN + l->len, l->len));
	rx_expect_layout(test, skb, l);
	KUNIT_EXPECT_TRUE(test, rx_frags_are(skb, 0));
	KUNIT_EXPECT_TRUE(test, rx_skb_is(test, skb, 0));
	KUNIT_EXPECT_EQ(test, le32_to_cpu(virtio_vsock_hdr(skb)->len), l->len);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(virtio_vsock_hdr(skb)->src_cid), PEER_CID);
}

/* What a guest gives and what its header announces, in bytes of payload. */
static const struct rx_announced {
	u32 given, len;
} rx_announced[] = {
	{ PKT_MAX, 0 },
	{ PKT_MAX, 1 },
	{ PKT_MAX, 4096 },
	{ PKT_MAX, 8200 },
	{ PKT_MAX, SZ_32K },
	{ PKT_MAX, 40000 },
	{ PKT_MAX, PKT_MAX - 1 },
	{ 40000, 33000 },
};

static void rx_announced_desc(const struct rx_announced *a, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u of %u bytes", a->len, a->given);
}

KUNIT_ARRAY_PARAM(rx_announced, rx_announced, rx_announced_desc);

/* The payload is where it would be without the rest, with and without the key. */
static void rx_guest_announces_less(struct kunit *test)
{
	const struct rx_announced *a = test->param_value;
	int on;

	for (on = 0; on < 2; on++) {
		struct sk_buff *skb;

		rx_key(on);
		skb = rx_guest_skb(test, HDR_LEN + a->given, a->len);
		KUNIT_ASSERT_NOT_NULL(test, skb);
		KUNIT_EXPECT_EQ(test, skb->len, a->len);
		KUNIT_EXPECT_EQ(test, skb->data_len, skb_shinfo(skb)->nr_frags ?
						     a->len : 0);
		KUNIT_EXPECT_TRUE(test, rx_frags_are(skb, 0));
		KUNIT_EXPECT_TRUE(test, rx_skb_is(test, skb, 0));
		kfree_skb(skb);
	}
}

static void rx_guest_announces_too_much(struct kunit *test)
{
	KUNIT_EXPECT_NULL(test, rx_guest_skb(test, HDR_LEN + 100, 101));
	KUNIT_EXPECT_NULL(test, rx_guest_skb(test, HDR_LEN, 1));
	KUNIT_EXPECT_NULL(test, rx_guest_skb(test, HDR_LEN + 100, U32_MAX));
	KUNIT_EXPECT_NULL(test, rx_guest_skb(test, HDR_LEN + PKT_MAX, PKT_MAX + 1));
}

static void rx_guest_gives_no_header(struct kunit *test)
{
	KUNIT_EXPECT_NULL(test, rx_guest_skb(test, 0, 0));
	KUNIT_EXPECT_NULL(test, rx_guest_skb(test, HDR_LEN - 1, 0));
}

static void rx_guest_gives_too_much(struct kunit *test)
{
	struct rx_ctx *ctx = test->priv;
	struct kvec vec[] = {
		{ .iov_base = ctx->scratch, .iov_len = HDR_LEN + PKT_MAX },
		{ .iov_base = ctx->scratch, .iov_len = 1 },
	};
	struct iov_iter from;

	iov_iter_kvec(&from, ITER_SOURCE, vec, 2, HDR_LEN + PKT_MAX + 1);
	KUNIT_EXPECT_NULL(test, virtio_transport_skb_from_iter(&from));
}

/* Fewer bytes than were allocated for: the fragments shrink with the packet. */
static void rx_put_less_than_allocated(struct kunit *test)
{
	static const u32 lens[] = { 1, 100, 4096, 33000, PKT_MAX - 1 };
	struct rx_ctx *ctx = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		struct sk_buff *skb;

		skb = virtio_vsock_alloc_skb(HDR_LEN + PKT_MAX, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, skb);
		KUNIT_EXPECT_TRUE(test, skb_is_nonlinear(skb));
		virtio_vsock_skb_put(skb, lens[i]);
		KUNIT_EXPECT_EQ(test, skb->len, lens[i]);
		KUNIT_EXPECT_LE(test, skb->data_len, skb->len);
		rx_fill(ctx->scratch, 0, lens[i]);
		skb_store_bits(skb, 0, ctx->scratch, lens[i]);
		if (skb_is_nonlinear(skb)) {
			KUNIT_EXPECT_EQ(test, skb->data_len, skb->len);
			KUNIT_EXPECT_TRUE(test, rx_frags_are(skb, 0));
		}
		KUNIT_EXPECT_TRUE(test, rx_skb_is(test, skb, 0));
		kfree_skb(skb);
	}
}

static void rx_buf_key_off(struct kunit *test)
{
	struct sk_buff *buf;

	rx_key(false);
	buf = rx_managed(test, virtio_transport_alloc_rx_buf(GFP_KERNEL));
	KUNIT_EXPECT_FALSE(test, skb_is_nonlinear(buf));
	KUNIT_EXPECT_EQ(test, skb_shinfo(buf)->nr_frags, 0);
	KUNIT_EXPECT_EQ(test, skb_tailroom(buf), LINEAR);
	KUNIT_EXPECT_LE(test, buf->truesize,
			SKB_TRUESIZE(VIRTIO_VSOCK_DEFAULT_RX_BUF_SIZE));
}

/* The allocator has only some of the orders: the largest of them is taken. */
static void rx_buf_order_falls_back(struct kunit *test)
{
	struct rx_ctx *ctx = test->priv;

	kunit_activate_static_stub(test, virtio_transport_alloc_rx_pages,
				   rx_alloc_rx_pages);
	for (ctx->max_order = VIRTIO_VSOCK_RX_ORDER + 1; ctx->max_order >= 0;
	     ctx->max_order--) {
		int order = min(ctx->max_order, VIRTIO_VSOCK_RX_ORDER);
		struct sk_buff *buf;

		buf = virtio_transport_alloc_rx_buf(GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, buf);
		KUNIT_EXPECT_EQ(test, skb_shinfo(buf)->nr_frags, 1);
		KUNIT_EXPECT_EQ(test, buf->data_len, PAGE_SIZE << order);
		KUNIT_EXPECT_EQ(test, buf->len, buf->data_len);
		KUNIT_EXPECT_EQ(test, buf->truesize, buf->data_len +
				SKB_TRUESIZE(skb_end_offset(buf)));
		KUNIT_EXPECT_EQ(test, skb_headroom(buf), HDR_LEN);

		/* Its capacity is its own, too. */
		rx_device_writes(test, buf, buf->data_len, 0);
		KUNIT_EXPECT_NULL(test, virtio_transport_rx_packet(buf, HDR_LEN +
								   buf->data_len + 1));
		KUNIT_EXPECT_PTR_EQ(test, virtio_transport_rx_packet(buf, HDR_LEN +
								     buf->data_len), buf);
		kfree_skb(buf);
	}

	KUNIT_EXPECT_NULL(test, virtio_transport_alloc_rx_buf(GFP_KERNEL));
}

/* The real allocator: as large as it can be had, and never a retry for it. */
static void rx_buf_allocation(struct kunit *test)
{
	struct page *page;
	int order;

	for (order = VIRTIO_VSOCK_RX_ORDER; order >= 0; order--) {
		page = virtio_transport_alloc_rx_pages(order, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, page);
		KUNIT_EXPECT_EQ(test, compound_order(page), order);
		put_page(page);
	}

	/* Larger than there is: no warning, and back at once. */
	KUNIT_EXPECT_NULL(test, virtio_transport_alloc_rx_pages(MAX_PAGE_ORDER + 1,
								GFP_KERNEL));
}

/* What a device says that it wrote, and what the header says: a packet or not? */
static const struct rx_claim {
	u32 used, len;
	bool linear, folio;
} rx_claims[] = {
	{ 0, 0, false, false },
	{ HDR_LEN - 1, 0, false, false },
	{ HDR_LEN, 0, true, true },
	{ HDR_LEN, 1, false, false },
	{ HDR_LEN + 1, 1, true, true },
	{ HDR_LEN + 2, 1, true, true },
	{ HDR_LEN + 100, 101, false, false },
	{ HDR_LEN + 100, U32_MAX, false, false },
	{ HDR_LEN + 100, U32_MAX - HDR_LEN + 1, false, false },
	{ HDR_LEN + LINEAR, LINEAR, true, true },
	{ HDR_LEN + LINEAR + 1, LINEAR, false, true },
	{ HDR_LEN + LINEAR + 1, LINEAR + 1, false, true },
	{ HDR_LEN + FOLIO, FOLIO, false, true },
	{ HDR_LEN + FOLIO, FOLIO + 1, false, false },
	{ HDR_LEN + FOLIO + 1, 1, false, false },
	{ HDR_LEN + FOLIO + 1, FOLIO, false, false },
	{ HDR_LEN + FOLIO + 1, FOLIO + 1, false, false },
	{ U32_MAX, 1, false, false },
	{ U32_MAX, U32_MAX - HDR_LEN, false, false },
};

static void rx_claim_desc(const struct rx_claim *c, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u used, %u announced", c->used,
		 c->len);
}

KUNIT_ARRAY_PARAM(rx_claim, rx_claims, rx_claim_desc);

static void rx_claim_by_device(struct kunit *test)
{
	const struct rx_claim *c = test->param_value;
	int on;

	for (on = 0; on < 2; on++) {
		struct sk_buff *buf, *skb;

		rx_key(on);
		buf = virtio_transport_alloc_rx_buf(GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, buf);
		rx_init_hdr(test, virtio_vsock_hdr(buf), c->len, 0);
		skb = virtio_transport_rx_packet(buf, c->used);
		KUNIT_EXPECT_EQ(test, !!skb, on ? c->folio : c->linear);
		if (skb)
			KUNIT_EXPECT_EQ(test, skb->len, c->len);
		if (skb != buf)
			kfree_skb(skb);
		kfree_skb(buf);
	}
}

/* Half of the folio, and more: it stays, and says what it takes. */
static void rx_keep_half_and_more(struct kunit *test)
{
	struct rx_ctx *ctx = test->priv;
	int order;

	kunit_activate_static_stub(test, virtio_transport_alloc_rx_pages,
				   rx_alloc_rx_pages);
	for (order = 0; order <= VIRTIO_VSOCK_RX_ORDER; order++) {
		u32 size = PAGE_SIZE << order;
		u32 lens[] = { size / 2, size / 2 + 1, size - 1, size };
		int i;

		ctx->max_order = order;
		for (i = 0; i < ARRAY_SIZE(lens); i++) {
			u32 pos = ctx->sent, truesize;
			struct sk_buff *buf, *skb;
			struct page *page;

			buf = virtio_transport_alloc_rx_buf(GFP_KERNEL);
			KUNIT_ASSERT_NOT_NULL(test, buf);
			page = skb_frag_page(skb_shinfo(buf)->frags);
			truesize = buf->truesize;
			rx_device_writes(test, buf, lens[i], 0);
			skb = virtio_transport_rx_packet(buf, HDR_LEN + lens[i]);
			if (skb != buf) {
				kfree_skb(skb);
				kfree_skb(buf);
			}
			KUNIT_ASSERT_PTR_EQ(test, skb, buf);
			KUNIT_EXPECT_EQ(test, buf->len, lens[i]);
			KUNIT_EXPECT_EQ(test, buf->data_len, lens[i]);
			KUNIT_EXPECT_EQ(test, buf->truesize, truesize);
			KUNIT_EXPECT_EQ(test, skb_shinfo(buf)->nr_frags, 1);
			KUNIT_EXPECT_PTR_EQ(test,
					    skb_frag_page(skb_shinfo(buf)->frags), page);
			KUNIT_EXPECT_EQ(test, skb_frag_off(skb_shinfo(buf)->frags), 0);
			KUNIT_EXPECT_EQ(test, page_count(page), 1);
			KUNIT_EXPECT_TRUE(test, rx_frags_are(buf, pos));
			kfree_skb(buf);
		}
	}
}

/* The buffer that a packet was moved out of is as it was. */
static void rx_expect_buf_as_new(struct kunit *test, struct sk_buff *buf,
				 struct page *page)
{
	KUNIT_EXPECT_EQ(test, buf->len, FOLIO);
	KUNIT_EXPECT_EQ(test, buf->data_len, FOLIO);
	KUNIT_EXPECT_EQ(test, skb_shinfo(buf)->nr_frags, 1);
	KUNIT_EXPECT_EQ(test, skb_frag_size(skb_shinfo(buf)->frags), FOLIO);
	KUNIT_EXPECT_PTR_EQ(test, skb_frag_page(skb_shinfo(buf)->frags), page);
	KUNIT_EXPECT_EQ(test, page_count(page), 1);
	KUNIT_EXPECT_EQ(test, skb_headroom(buf), HDR_LEN);
}

/* One buffer, many packets: each is what a linear buffer would have made of it. */
static void rx_move_small(struct kunit *test)
{
	static const u32 lens[] = { 1, 128, 129, 340, 2048, LINEAR - 1, LINEAR };
	struct rx_ctx *ctx = test->priv;
	struct sk_buff *buf, *old;
	struct page *page;
	int i;

	rx_key(false);
	old = rx_managed(test, virtio_transport_alloc_rx_buf(GFP_KERNEL));
	rx_key(true);
	buf = rx_managed(test, virtio_transport_alloc_rx_buf(GFP_KERNEL));
	page = skb_frag_page(skb_shinfo(buf)->frags);

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		struct virtio_vsock_hdr hdr;
		u32 pos = ctx->sent;
		struct sk_buff *skb;

		rx_device_writes(test, buf, lens[i], EOM);
		hdr = *virtio_vsock_hdr(buf);
		skb = virtio_transport_rx_packet(buf, HDR_LEN + lens[i]);
		KUNIT_ASSERT_NOT_NULL(test, skb);
		KUNIT_ASSERT_PTR_NE(test, skb, buf);
		KUNIT_EXPECT_FALSE(test, skb_is_nonlinear(skb));
		KUNIT_EXPECT_EQ(test, skb->len, lens[i]);
		KUNIT_EXPECT_EQ(test, skb_headroom(skb), HDR_LEN);
		KUNIT_EXPECT_EQ(test, skb_tailroom(skb), LINEAR - lens[i]);
		KUNIT_EXPECT_EQ(test, skb->truesize, old->truesize);
		KUNIT_EXPECT_MEMEQ(test, virtio_vsock_hdr(skb), &hdr, HDR_LEN);
		KUNIT_EXPECT_TRUE(test, rx_is(skb->data, pos, lens[i]));
		rx_expect_buf_as_new(test, buf, page);
		kfree_skb(skb);
	}
}

static void rx_move_without_payload(struct kunit *test)
{
	struct sk_buff *buf, *skb;

	buf = rx_managed(test, virtio_transport_alloc_rx_buf(GFP_KERNEL));
	rx_device_writes(test, buf, 0, EOM);
	skb = virtio_transport_rx_packet(buf, HDR_LEN);
	KUNIT_ASSERT_NOT_NULL(test, skb);
	KUNIT_ASSERT_PTR_NE(test, skb, buf);
	rx_managed(test, skb);
	KUNIT_EXPECT_EQ(test, skb->len, 0);
	KUNIT_EXPECT_EQ(test, skb_shinfo(skb)->nr_frags, 0);
	KUNIT_EXPECT_LE(test, skb->truesize, SKB_TRUESIZE(SZ_1K));
	KUNIT_EXPECT_EQ(test, le32_to_cpu(virtio_vsock_hdr(skb)->flags), EOM);
	rx_expect_buf_as_new(test, buf, skb_frag_page(skb_shinfo(buf)->frags));
}

/* More than a linear buffer holds: pages of its own, and more than half of each. */
static void rx_move_large(struct kunit *test)
{
	static const u32 lens[] = { LINEAR + 1, 4095, 4096, 8200, FOLIO / 2 - 1 };
	struct rx_ctx *ctx = test->priv;
	struct sk_buff *buf;
	struct page *page;
	int i;

	buf = rx_managed(test, virtio_transport_alloc_rx_buf(GFP_KERNEL));
	page = skb_frag_page(skb_shinfo(buf)->frags);

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		u32 pos = ctx->sent;
		struct sk_buff *skb;

		rx_device_writes(test, buf, lens[i], 0);
		skb = virtio_transport_rx_packet(buf, HDR_LEN + lens[i]);
		KUNIT_ASSERT_NOT_NULL(test, skb);
		KUNIT_ASSERT_PTR_NE(test, skb, buf);
		KUNIT_EXPECT_EQ(test, skb->len, lens[i]);
		KUNIT_EXPECT_EQ(test, skb->data_len, lens[i]);
		KUNIT_EXPECT_LE(test, skb->truesize, SKB_TRUESIZE(SZ_1K) +
						     round_up(lens[i], PAGE_SIZE));
		KUNIT_EXPECT_PTR_NE(test, skb_frag_page(skb_shinfo(skb)->frags), page);
		KUNIT_EXPECT_TRUE(test, rx_frags_are(skb, pos));
		KUNIT_EXPECT_EQ(test, le32_to_cpu(virtio_vsock_hdr(skb)->len), lens[i]);
		rx_expect_buf_as_new(test, buf, page);
		kfree_skb(skb);
	}
}

/* No memory to move a packet: it is received all the same. */
static void rx_move_fails(struct kunit *test)
{
	static const u32 lens[] = { 0, 1, 129, 4095, 4096, 8200, FOLIO / 2 - 1 };
	struct rx_ctx *ctx = rx_connect(test, SOCK_STREAM, SZ_256K);
	int i;

	kunit_activate_static_stub(test, virtio_transport_alloc_moved,
				   rx_alloc_moved_fails);
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		struct sk_buff *buf, *skb;
		u32 pos = ctx->sent;

		buf = virtio_transport_alloc_rx_buf(GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, buf);
		rx_device_writes(test, buf, lens[i], 0);
		skb = virtio_transport_rx_packet(buf, HDR_LEN + lens[i]);
		if (!skb)
			kfree_skb(buf);
		KUNIT_ASSERT_PTR_EQ(test, skb, buf);
		KUNIT_EXPECT_EQ(test, buf->len, lens[i]);
		KUNIT_EXPECT_TRUE(test, !buf->data_len || buf->data_len == lens[i]);
		KUNIT_EXPECT_TRUE(test, rx_skb_is(test, buf, pos));
		/* A folio that is held is accounted for. */
		KUNIT_EXPECT_GE(test, buf->truesize, buf->data_len ? FOLIO : 0);
		virtio_transport_recv_pkt(&rx_transport, buf, &init_net);
	}

	while (rx_recv(test, PKT_MAX) > 0)
		;
	rx_expect_drained(test);
}

/* A linear buffer is in the ring still when the key goes on. */
static void rx_buf_of_before(struct kunit *test)
{
	static const u32 lens[] = { 0, 1, LINEAR };
	struct rx_ctx *ctx = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		struct sk_buff *buf;
		u32 pos = ctx->sent;

		rx_key(false);
		buf = virtio_transport_alloc_rx_buf(GFP_KERNEL);
		rx_key(true);
		KUNIT_ASSERT_NOT_NULL(test, buf);
		rx_device_writes(test, buf, lens[i], 0);
		KUNIT_EXPECT_PTR_EQ(test, virtio_transport_rx_packet(buf, HDR_LEN +
								     lens[i]), buf);
		KUNIT_EXPECT_EQ(test, buf->len, lens[i]);
		KUNIT_EXPECT_TRUE(test, rx_is(buf->data, pos, lens[i]));
		kfree_skb(buf);
	}
}

/* A payload in fragments has no room behind it that anything could be put in. */
static void rx_nothing_merged_into_fragments(struct kunit *test)
{
	struct rx_ctx *ctx = rx_connect(test, SOCK_STREAM, SZ_256K);
	static const u32 lens[] = { SZ_32K + 1, SZ_64K - 5000, SZ_64K - 100 };
	struct sk_buff *skb;
	u8 *behind;
	int i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		struct skb_shared_info *si;
		u32 room;

		rx_device_packet(test, lens[i], 0);
		skb = skb_peek_tail(&ctx->vvs->rx_queue);
		KUNIT_ASSERT_TRUE(test, skb_is_nonlinear(skb));
		si = skb_shinfo(skb);
		behind = skb_frag_address(&si->frags[si->nr_frags - 1]) +
			 skb_frag_size(&si->frags[si->nr_frags - 1]);
		room = round_up(lens[i], PAGE_SIZE) - lens[i];
		memset(behind, 0x5a, room);

		rx_device_packet(test, 50, 0);
		KUNIT_EXPECT_PTR_NE(test, skb_peek_tail(&ctx->vvs->rx_queue), skb);
		KUNIT_EXPECT_EQ(test, skb->len, lens[i]);
		KUNIT_EXPECT_EQ(test, skb->data_len, lens[i]);
		KUNIT_EXPECT_NULL(test, memchr_inv(behind, 0x5a, room));
	}

	while (rx_recv(test, PKT_MAX) > 0)
		;
	rx_expect_drained(test);
}

static void rx_small_ones_are_merged(struct kunit *test)
{
	struct rx_ctx *ctx = rx_connect(test, SOCK_STREAM, SZ_256K);
	int i;

	for (i = 0; i < 10; i++)
		rx_device_packet(test, 100, 0);
	KUNIT_EXPECT_EQ(test, skb_queue_len(&ctx->vvs->rx_queue), 1);
	KUNIT_EXPECT_EQ(test, rx_recv(test, PKT_MAX), 1000);
	rx_expect_drained(test);
}

/* Unread packets of @len bytes, up to all credit: what they take. */
static u64 rx_flood(struct kunit *test, bool on, u32 len)
{
	struct rx_ctx *ctx = test->priv;
	u64 sum;

	rx_key(on);
	while (ctx->vvs->buf_used + len <= ctx->vvs->buf_alloc &&
	       !sk_vsock(ctx->vsk)->sk_err)
		rx_device_packet(test, len, 0);
	KUNIT_EXPECT_EQ(test, sk_vsock(ctx->vsk)->sk_err, 0);
	sum = rx_queue_truesize(ctx);

	while (rx_recv(test, PKT_MAX) > 0)
		;
	rx_expect_drained(test);

	return sum;
}

static void rx_flood_is_no_dearer(struct kunit *test)
{
	static const u32 lens[] = { 1, 2, 128, 129, 1000, 2048, LINEAR };
	u64 off, on;
	int i;

	rx_connect(test, SOCK_STREAM, SZ_64K);
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		off = rx_flood(test, false, lens[i]);
		on = rx_flood(test, true, lens[i]);
		KUNIT_EXPECT_LE_MSG(test, on, off, "packets of %u bytes", lens[i]);
	}
}

/* One-byte packets between such that have fragments. */
static void rx_flood_among_fragments(struct kunit *test)
{
	struct rx_ctx *ctx = rx_connect(test, SOCK_STREAM, SZ_1M);
	u64 payload = 0;
	int i;

	for (i = 0; i < 25; i++) {
		rx_device_packet(test, 40000, 0);
		rx_device_packet(test, 1, 0);
		rx_device_packet(test, 1, 0);
		payload += 40002;
	}
	KUNIT_EXPECT_EQ(test, skb_queue_len(&ctx->vvs->rx_queue), 50);
	KUNIT_EXPECT_LE(test, rx_queue_truesize(ctx), 2 * payload);
	while (rx_recv(test, 5000) > 0)
		;
	rx_expect_drained(test);
}

/* A queue of too many packets is collapsed around those that have fragments. */
static void rx_collapse_around_fragments(struct kunit *test)
{
	struct rx_ctx *ctx = rx_connect(test, SOCK_STREAM, SZ_512K);
	u32 most = SZ_512K / SKB_TRUESIZE(0);
	int i, pages = 0;

	for (i = 0; ctx->vvs->buf_used < SZ_512K - 33000; i++) {
		bool page = i % 200 == 10;

		pages += page;
		rx_device_packet(test, page ? 33000 : 150, 0);
		KUNIT_ASSERT_EQ(test, sk_vsock(ctx->vsk)->sk_err, 0);
		KUNIT_ASSERT_LE(test, skb_queue_len(&ctx->vvs->rx_queue), most);
	}
	KUNIT_EXPECT_GT(test, i, most);
	KUNIT_EXPECT_GT(test, pages, 2);
	while (rx_recv(test, 777) > 0)
		;
	rx_expect_drained(test);
}

/* Random packets and calls, while the key changes. */
static void rx_random_stream(struct kunit *test)
{
	struct rx_ctx *ctx = rx_connect(test, SOCK_STREAM, SZ_256K);
	struct rnd_state rnd;
	int i;

	prandom_seed_state(&rnd, 20261130);
	for (i = 0; i < 3000; i++) {
		u32 len = prandom_u32_state(&rnd) % BIT(prandom_u32_state(&rnd) % 17);
		u32 most;

		most = prandom_u32_state(&rnd) % 16 ? FOLIO : LINEAR;
		rx_key(most == FOLIO);
		len = min(len, most);
		if (ctx->vvs->buf_used + len <= ctx->vvs->buf_alloc)
			rx_device_packet(test, len, 0);
		KUNIT_ASSERT_EQ(test, sk_vsock(ctx->vsk)->sk_err, 0);
		if (prandom_u32_state(&rnd) % 2) {
			len = prandom_u32_state(&rnd) % BIT(prandom_u32_state(&rnd) % 17);
			if (prandom_u32_state(&rnd) % 4)
				rx_recv(test, len);
			else
				rx_recv_flags(test, len, MSG_PEEK, NULL);
		}
	}
	while (rx_recv(test, PKT_MAX) > 0)
		;
	rx_expect_drained(test);
	KUNIT_EXPECT_GT(test, ctx->sent, SZ_1M);
}

#define FIRST		40000
#define MESSAGE		(FIRST + 5000)

/* A message of two packets, of which @taken bytes were taken by mapping, and one
 * of 100 bytes behind it.
 */
static struct rx_ctx *rx_message_taken(struct kunit *test, u32 taken)
{
	struct rx_ctx *ctx = rx_connect(test, SOCK_SEQPACKET, SZ_256K);

	rx_device_packet(test, FIRST, 0);
	rx_device_packet(test, MESSAGE - FIRST, EOM | EOR);
	rx_device_packet(test, 100, EOM);
	rx_take(test, taken);
	KUNIT_EXPECT_EQ(test, ctx->vvs->fwd_cnt, 0);

	return ctx;
}

static void rx_expect_next_message(struct kunit *test)
{
	int flags;

	KUNIT_EXPECT_EQ(test, rx_recv_flags(test, PKT_MAX, 0, &flags), 100);
	KUNIT_EXPECT_FALSE(test, flags & MSG_EOR);
	rx_expect_drained(test);
}

static const u32 rx_taken[] = { 1, 4095, 4096, FIRST - 1 };

static void rx_taken_desc(const u32 *taken, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u bytes", *taken);
}

KUNIT_ARRAY_PARAM(rx_taken, rx_taken, rx_taken_desc);

static void rx_message_rest_received(struct kunit *test)
{
	u32 taken = *(const u32 *)test->param_value;
	struct rx_ctx *ctx = rx_message_taken(test, taken);
	int flags;

	KUNIT_EXPECT_EQ(test, rx_recv_flags(test, PKT_MAX, 0, &flags), MESSAGE - taken);
	KUNIT_EXPECT_TRUE(test, flags & MSG_EOR);
	KUNIT_EXPECT_FALSE(test, flags & MSG_TRUNC);
	KUNIT_EXPECT_EQ(test, ctx->vvs->rx_bytes, 100);
	KUNIT_EXPECT_EQ(test, ctx->vvs->buf_used, 100);
	KUNIT_EXPECT_EQ(test, ctx->vvs->fwd_cnt, MESSAGE);
	rx_expect_next_message(test);
}

static void rx_message_rest_peeked(struct kunit *test)
{
	u32 taken = *(const u32 *)test->param_value;
	struct rx_ctx *ctx = rx_message_taken(test, taken);
	int flags;

	KUNIT_EXPECT_EQ(test, rx_recv_flags(test, PKT_MAX, MSG_PEEK, &flags),
			MESSAGE - taken);
	KUNIT_EXPECT_TRUE(test, flags & MSG_EOR);
	/* Less than is left of the first packet, and more. */
	KUNIT_EXPECT_EQ(test, rx_recv_flags(test, 1, MSG_PEEK, NULL), 1);
	KUNIT_EXPECT_EQ(test, rx_recv_flags(test, 5000, MSG_PEEK, NULL), 5000);
	/* The length of a message is what is left of it. */
	KUNIT_EXPECT_EQ(test, rx_recv_flags(test, 10, MSG_PEEK | MSG_TRUNC, &flags),
			MESSAGE - taken);
	KUNIT_EXPECT_TRUE(test, flags & MSG_TRUNC);
	KUNIT_EXPECT_EQ(test, ctx->vvs->rx_bytes, MESSAGE + 100 - taken);
	KUNIT_EXPECT_EQ(test, ctx->vvs->buf_used, MESSAGE + 100);
	KUNIT_EXPECT_EQ(test, ctx->vvs->msg_count, 2);

	KUNIT_EXPECT_EQ(test, rx_recv(test, PKT_MAX), MESSAGE - taken);
	rx_expect_next_message(test);
}

/* What does not fit is gone, and its credit is back. */
static void rx_message_rest_truncated(struct kunit *test)
{
	u32 taken = *(const u32 *)test->param_value;
	struct rx_ctx *ctx = rx_message_taken(test, taken);
	int flags;

	KUNIT_EXPECT_EQ(test, rx_recv_flags(test, 10, MSG_TRUNC, &flags),
			MESSAGE - taken);
	KUNIT_EXPECT_TRUE(test, flags & MSG_TRUNC);
	KUNIT_EXPECT_EQ(test, ctx->vvs->rx_bytes, 100);
	KUNIT_EXPECT_EQ(test, ctx->vvs->buf_used, 100);
	rx_expect_next_message(test);
}

static bool rx_readable(const struct rx_ctx *ctx)
{
	const struct proto_ops *ops = READ_ONCE(ctx->sock->ops);

	return ops->poll(NULL, ctx->sock, NULL) & EPOLLIN;
}

/* poll() promises a message, not the beginning of one. */
static void rx_poll_whole_message(struct kunit *test)
{
	struct rx_ctx *ctx = rx_connect(test, SOCK_SEQPACKET, SZ_256K);

	KUNIT_EXPECT_FALSE(test, rx_readable(ctx));
	rx_device_packet(test, 200, 0);
	KUNIT_EXPECT_FALSE(test, rx_readable(ctx));
	KUNIT_EXPECT_EQ(test, rx_recv(test, PKT_MAX), -EAGAIN);
	rx_device_packet(test, 200, EOM);
	KUNIT_EXPECT_TRUE(test, rx_readable(ctx));
	KUNIT_EXPECT_EQ(test, rx_recv(test, PKT_MAX), 400);
	KUNIT_EXPECT_FALSE(test, rx_readable(ctx));

	/* One without bytes is a message as well. */
	rx_device_packet(test, 0, EOM);
	KUNIT_EXPECT_TRUE(test, rx_readable(ctx));
	KUNIT_EXPECT_EQ(test, rx_recv(test, PKT_MAX), 0);
	KUNIT_EXPECT_FALSE(test, rx_readable(ctx));
	rx_expect_drained(test);
}

static void rx_poll_stream(struct kunit *test)
{
	struct rx_ctx *ctx = rx_connect(test, SOCK_STREAM, SZ_256K);

	KUNIT_EXPECT_FALSE(test, rx_readable(ctx));
	rx_device_packet(test, 1, 0);
	KUNIT_EXPECT_TRUE(test, rx_readable(ctx));
	KUNIT_EXPECT_EQ(test, rx_recv(test, PKT_MAX), 1);
	KUNIT_EXPECT_FALSE(test, rx_readable(ctx));
	rx_expect_drained(test);
}

static int rx_actor(struct sock *sk, struct sk_buff *skb)
{
	kfree_skb(rx_peer->last_sent);
	rx_peer->last_sent = skb;

	return skb->len;
}

/* A sockmap gets what recv() has not returned, of any kind of packet. */
static void rx_sockmap_gets_the_rest(struct kunit *test)
{
	struct rx_ctx *ctx = rx_connect(test, SOCK_STREAM, SZ_256K);
	static const u32 lens[] = { 1000, 8200, SZ_64K };
	int i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		u32 read = lens[i] - 300;

		rx_device_packet(test, lens[i], 0);
		KUNIT_EXPECT_EQ(test, rx_recv(test, read), read);
		KUNIT_EXPECT_EQ(test, virtio_transport_read_skb(ctx->vsk, rx_actor),
				300);
		KUNIT_ASSERT_NOT_NULL(test, ctx->last_sent);
		KUNIT_EXPECT_EQ(test, ctx->last_sent->len, 300);
		KUNIT_EXPECT_TRUE(test, rx_skb_is(test, ctx->last_sent,
						  ctx->received));
		kfree_skb(ctx->last_sent);
		ctx->last_sent = NULL;
		ctx->received += 300;
		rx_expect_drained(test);
	}
}

/* Send @len bytes: the packet that the transport gets, or the last of them. */
static struct sk_buff *rx_send(struct kunit *test, u32 len)
{
	struct rx_ctx *ctx = test->priv;
	struct kvec vec = { .iov_base = ctx->scratch, .iov_len = len };
	struct msghdr msg = {};

	rx_fill(ctx->scratch, 0, len);
	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, &vec, 1, len);
	lock_sock(sk_vsock(ctx->vsk));
	len = virtio_transport_stream_enqueue(ctx->vsk, &msg, len);
	release_sock(sk_vsock(ctx->vsk));
	KUNIT_EXPECT_EQ(test, len, vec.iov_len);
	KUNIT_ASSERT_NOT_NULL(test, ctx->last_sent);

	return ctx->last_sent;
}

static int rx_wakeups;

static void rx_count_wakeup(struct sock *sk)
{
	rx_wakeups++;
}

/* Who waits is woken up when a message is there, also by an empty one and by one
 * that is shorter than the mark. Each packet counts, because a sockmap takes one
 * each time that it is woken up.
 */
static void rx_wake_for_whole_message(struct kunit *test)
{
	struct rx_ctx *ctx = rx_connect(test, SOCK_SEQPACKET, SZ_256K);

	rx_wakeups = 0;
	sk_vsock(ctx->vsk)->sk_data_ready = rx_count_wakeup;

	rx_device_packet(test, 1000, 0);
	KUNIT_EXPECT_EQ(test, rx_wakeups, 1);
	rx_device_packet(test, 10, EOM);
	KUNIT_EXPECT_EQ(test, rx_wakeups, 2);
	KUNIT_EXPECT_EQ(test, rx_recv(test, 2000), 1010);

	rx_device_packet(test, 0, EOM);
	KUNIT_EXPECT_EQ(test, rx_wakeups, 3);
	KUNIT_EXPECT_EQ(test, rx_recv(test, 2000), 0);

	WRITE_ONCE(sk_vsock(ctx->vsk)->sk_rcvlowat, 5000);
	rx_device_packet(test, 10, EOM);
	KUNIT_EXPECT_EQ(test, rx_wakeups, 4);
}

/* The receiver queues this very skb. */
static void rx_sent_in_pages(struct kunit *test)
{
	const struct rx_layout *l = test->param_value;
	struct rx_ctx *ctx = test->priv;
	struct sk_buff *skb;

	rx_connect(test, SOCK_STREAM, SZ_256K);
	rx_transport.rx_is_tx = true;
	/* Not even a packet. */
	if (!l->len) {
		struct msghdr msg = {};

		KUNIT_EXPECT_EQ(test, virtio_transport_stream_enqueue(ctx->vsk, &msg, 0),
				0);
		KUNIT_EXPECT_NULL(test, ctx->last_sent);
		return;
	}

	skb = rx_send(test, l->len);
	rx_expect_layout(test, skb, l);
	KUNIT_EXPECT_TRUE(test, rx_frags_are(skb, 0));
	KUNIT_EXPECT_TRUE(test, rx_skb_is(test, skb, 0));
}

/* The receiver does not get this one, or does not want it otherwise. */
static void rx_sent_as_before(struct kunit *test)
{
	static const u32 lens[] = { 100, 4096, SZ_32K - SZ_1K, SZ_64K };
	int i, on;

	rx_connect(test, SOCK_STREAM, SZ_1M);
	for (on = 0; on < 2; on++) {
		rx_key(on);
		rx_transport.rx_is_tx = !on;
		for (i = 0; i < ARRAY_SIZE(lens); i++) {
			struct sk_buff *skb = rx_send(test, lens[i]), *old;

			old = virtio_vsock_alloc_skb(HDR_LEN + lens[i], GFP_KERNEL);
			KUNIT_ASSERT_NOT_NULL(test, old);
			KUNIT_EXPECT_EQ(test, skb->truesize, old->truesize);
			KUNIT_EXPECT_EQ(test, skb->data_len, old->data_len);
			KUNIT_EXPECT_EQ(test, skb_shinfo(skb)->nr_frags,
					skb_shinfo(old)->nr_frags);
			KUNIT_EXPECT_TRUE(test, rx_skb_is(test, skb, 0));
			kfree_skb(old);
		}
	}
}

static struct kunit_case rx_cases[] = {
	KUNIT_CASE_PARAM(rx_layout_of_length, rx_layout_gen_params),
	KUNIT_CASE_PARAM(rx_layout_key_off, rx_layout_gen_params),
	KUNIT_CASE_PARAM(rx_layout_from_guest, rx_layout_gen_params),
	KUNIT_CASE_PARAM(rx_guest_announces_less, rx_announced_gen_params),
	KUNIT_CASE(rx_guest_announces_too_much),
	KUNIT_CASE(rx_guest_gives_no_header),
	KUNIT_CASE(rx_guest_gives_too_much),
	KUNIT_CASE(rx_put_less_than_allocated),
	KUNIT_CASE(rx_buf_key_off),
	KUNIT_CASE(rx_buf_order_falls_back),
	KUNIT_CASE(rx_buf_allocation),
	KUNIT_CASE(rx_buf_of_before),
	KUNIT_CASE_PARAM(rx_claim_by_device, rx_claim_gen_params),
	KUNIT_CASE(rx_keep_half_and_more),
	KUNIT_CASE(rx_move_small),
	KUNIT_CASE(rx_move_without_payload),
	KUNIT_CASE(rx_move_large),
	KUNIT_CASE(rx_move_fails),
	KUNIT_CASE(rx_nothing_merged_into_fragments),
	KUNIT_CASE(rx_small_ones_are_merged),
	KUNIT_CASE_SLOW(rx_flood_is_no_dearer),
	KUNIT_CASE(rx_flood_among_fragments),
	KUNIT_CASE(rx_collapse_around_fragments),
	KUNIT_CASE(rx_random_stream),
	KUNIT_CASE_PARAM(rx_message_rest_received, rx_taken_gen_params),
	KUNIT_CASE_PARAM(rx_message_rest_peeked, rx_taken_gen_params),
	KUNIT_CASE_PARAM(rx_message_rest_truncated, rx_taken_gen_params),
	KUNIT_CASE(rx_poll_whole_message),
	KUNIT_CASE(rx_wake_for_whole_message),
	KUNIT_CASE(rx_poll_stream),
	KUNIT_CASE(rx_sockmap_gets_the_rest),
	KUNIT_CASE_PARAM(rx_sent_in_pages, rx_layout_gen_params),
	KUNIT_CASE(rx_sent_as_before),
	{}
};

static struct kunit_suite rx_suite = {
	.name = "virtio_vsock_rx",
	.init = rx_init,
	.exit = rx_exit,
	.test_cases = rx_cases,
};

kunit_test_suite(rx_suite);

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");
MODULE_DESCRIPTION("KUnit tests for the receive buffers of virtio vsock");
MODULE_LICENSE("GPL");
