// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for SO_VM_SOCKETS_ZEROCOPY: what a receive into a mapping of an
 * AF_VSOCK socket shows to the process, and what it leaves in the queue.
 *
 * The receive is the real one, on a socket that the suite connects to a
 * transport of its own, and into a mapping of that socket in the mm of the
 * test. The queue is made by hand of every kind of packet. Each call that
 * succeeds is held against the queue as it was before: zc_check().
 */
#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/net.h>
#include <linux/prandom.h>
#include <linux/sched/mm.h>
#include <linux/shmem_fs.h>
#include <linux/skbuff.h>
#include <linux/skmsg.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/virtio_vsock.h>
#include <net/af_vsock.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#define EOM		VIRTIO_VSOCK_SEQ_EOM
#define EOR		VIRTIO_VSOCK_SEQ_EOR
#define COPIED		VIRTIO_VSOCK_USR_COPIED
#define UNMAPPED	VM_SOCKETS_ZEROCOPY_UNMAPPED
#define MORE		VM_SOCKETS_ZEROCOPY_MORE
#define FINISHED	VM_SOCKETS_ZEROCOPY_FINISHED

#define HEADERS		(PAGE_SIZE / sizeof(struct virtio_vsock_usr_hdr))

/* No byte of a packet has this value. */
#define POISON		0xfe

/* The largest folios, as an order, that a packet is put into. */
#define MAX_FOLIO	4

/* More packets and pages than a case queues. */
#define MAX_PIECES	1024
#define MAX_PAGES	2048

/* In an skb's cb: a packet in the queue. */
struct zc_cb {
	u32 offset;		/* bytes that were received already */
	u32 flags;
	bool borrowed;		/* the pages are not the packet's to free */
};

/* A packet that was there to be received. */
struct zc_piece {
	u32 len;
	u32 flags;
};

struct zc_ctx {
	struct socket *sock;
	struct file *file;
	struct vsock_sock *vsk;
	struct sk_buff_head queue;
	u64 sent;		/* bytes that were ever queued */
	u64 received;		/* bytes that were ever received */
	int takes;
	bool bad_take;

	unsigned long map;	/* the mapping */
	unsigned int map_pages;
	unsigned long start;	/* the range of the last call */
	unsigned int nr;
	bool unmapped;		/* as the last call said */
	sockptr_t optlen_ptr;	/* where the length is written, if it matters */
	unsigned long user;	/* memory for arguments: two pages */
	u8 *buf;		/* a page to compare */

	/* The queue before the last call. */
	struct zc_piece *pieces;
	u32 nr_pieces;
	u32 nr_packets;
	u64 queued;
	struct page **pages;
	int *refs;		/* to each of the pages */
	u32 nr_pages;

	/* What the last call gave. */
	struct vm_sockets_zerocopy res;
	struct virtio_vsock_usr_hdr *hdrs;

	/* Insertion fails with this error after so many pages. */
	int insert_err;
	unsigned long insert_room;
	bool insert_once;
	/* Allocation of pages for copies fails after so many. */
	unsigned int gather_room;
	/* A page that gets a second user, or loses one. */
	struct page *hold;
	bool held;
};

static struct zc_cb *zc_cb(struct sk_buff *skb)
{
	return (struct zc_cb *)skb->cb;
}

/* The byte at a place of all that is ever sent: never 0, never POISON. */
static u8 zc_byte(u64 pos)
{
	u32 rem;

	div_u64_rem(pos, 251, &rem);

	return rem + 1;
}

static void zc_free(struct sk_buff *skb)
{
	if (zc_cb(skb)->borrowed)
		skb_shinfo(skb)->nr_frags = 0;
	consume_skb(skb);
}

static bool zc_seqpacket(const struct zc_ctx *ctx)
{
	return sk_vsock(ctx->vsk)->sk_type == SOCK_SEQPACKET;
}

/* Is a packet there to be received? On seqpacket if its message's end is. */
static bool zc_offered(struct zc_ctx *ctx, struct sk_buff *skb)
{
	if (!zc_seqpacket(ctx))
		return true;

	skb_queue_walk_from(&ctx->queue, skb) {
		if (zc_cb(skb)->flags & EOM)
			return true;
	}

	return false;
}

static bool zc_rx_look(struct vsock_sock *vsk, struct vsock_rx_packet *pkt)
{
	struct zc_ctx *ctx = vsk->trans;
	struct sk_buff *skb;

	if (pkt->skb)
		skb = skb_peek_next(pkt->skb, &ctx->queue);
	else
		skb = skb_peek(&ctx->queue);
	if (!skb || !zc_offered(ctx, skb))
		return false;

	pkt->skb = skb;
	pkt->offset = zc_cb(skb)->offset;
	pkt->len = skb->len - zc_cb(skb)->offset;
	pkt->flags = zc_cb(skb)->flags;

	return true;
}

static void zc_rx_take(struct vsock_sock *vsk, u32 packets, u32 bytes)
{
	struct zc_ctx *ctx = vsk->trans;
	struct sk_buff *skb;

	ctx->takes++;
	while (packets--) {
		skb = __skb_dequeue(&ctx->queue);
		if (!skb) {
			ctx->bad_take = true;
			return;
		}
		zc_free(skb);
	}

	if (!bytes)
		return;

	skb = skb_peek(&ctx->queue);
	if (!skb || bytes >= skb->len - zc_cb(skb)->offset) {
		ctx->bad_take = true;
		return;
	}
	zc_cb(skb)->offset += bytes;
}

static s64 zc_stream_has_data(struct vsock_sock *vsk)
{
	struct zc_ctx *ctx = vsk->trans;
	struct sk_buff *skb;
	s64 bytes = 0;

	skb_queue_walk(&ctx->queue, skb)
		bytes += skb->len - zc_cb(skb)->offset;

	return bytes;
}

/* A sockmap asks for it. */
static int zc_read_skb(struct vsock_sock *vsk, skb_read_actor_t actor)
{
	return -EAGAIN;
}

static const struct vsock_transport zc_transport = {
	.stream_has_data = zc_stream_has_data,
	.read_skb = zc_read_skb,
	.rx_look = zc_rx_look,
	.rx_take = zc_rx_take,
};

/* One that cannot do it. */
static const struct vsock_transport zc_transport_without = {
	.stream_has_data = zc_stream_has_data,
};

/* Leave no page that the receive may get as it would like to have it. */
static void zc_dirty_memory(void)
{
	static const u8 orders[] = { 0, 1, 2, 3, 4 };
	LIST_HEAD(list);
	struct page *page, *tmp;
	int i, j;

	for (i = 0; i < ARRAY_SIZE(orders); i++) {
		for (j = 0; j < 64 >> orders[i]; j++) {
			page = alloc_pages(GFP_KERNEL | __GFP_NOWARN, orders[i]);
			if (!page)
				break;
			memset(page_address(page), POISON, PAGE_SIZE << orders[i]);
			page->private = orders[i];
			list_add(&page->lru, &list);
		}
	}
	list_for_each_entry_safe(page, tmp, &list, lru) {
		unsigned int order = page->private;

		list_del(&page->lru);
		page->private = 0;
		__free_pages(page, order);
	}
}

static int zc_init(struct kunit *test)
{
	struct zc_ctx *ctx = kunit_kzalloc(test, sizeof(*ctx), GFP_KERNEL);

	if (!ctx)
		return -ENOMEM;

	__skb_queue_head_init(&ctx->queue);
	ctx->insert_room = ULONG_MAX;
	ctx->gather_room = UINT_MAX;
	ctx->buf = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);
	ctx->hdrs = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);
	ctx->pieces = kunit_kcalloc(test, MAX_PIECES, sizeof(*ctx->pieces),
				    GFP_KERNEL);
	ctx->pages = kunit_kcalloc(test, MAX_PAGES, sizeof(*ctx->pages),
				   GFP_KERNEL);
	ctx->refs = kunit_kcalloc(test, MAX_PAGES, sizeof(*ctx->refs),
				  GFP_KERNEL);
	test->priv = ctx;
	zc_dirty_memory();

	return ctx->buf && ctx->hdrs && ctx->pieces && ctx->pages && ctx->refs ?
	       0 : -ENOMEM;
}

static void zc_disconnect(struct zc_ctx *ctx)
{
	lock_sock(sk_vsock(ctx->vsk));
	ctx->vsk->transport = NULL;
	ctx->vsk->trans = NULL;
	sk_vsock(ctx->vsk)->sk_state = TCP_CLOSE;
	ctx->sock->state = SS_UNCONNECTED;
	release_sock(sk_vsock(ctx->vsk));
}

static void zc_exit(struct kunit *test)
{
	struct zc_ctx *ctx = test->priv;
	struct sk_buff *skb;

	if (!ctx || !ctx->sock)
		return;

	zc_disconnect(ctx);
	while ((skb = __skb_dequeue(&ctx->queue)))
		zc_free(skb);
	fput(ctx->file);
}

/* A connected socket of the wanted type that has opted in. */
static struct zc_ctx *zc_connect(struct kunit *test, int type)
{
	struct zc_ctx *ctx = test->priv;
	struct socket *sock;

	KUNIT_ASSERT_EQ(test, sock_create_kern(&init_net, AF_VSOCK, type, 0,
					       &sock), 0);
	/* Takes the socket, also when it fails. */
	ctx->file = sock_alloc_file(sock, 0, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ctx->file));
	ctx->sock = sock;
	ctx->vsk = vsock_sk(sock->sk);
	ctx->vsk->trans = ctx;
	ctx->vsk->transport = &zc_transport;
	ctx->vsk->rx_zerocopy = true;
	sk_vsock(ctx->vsk)->sk_state = TCP_ESTABLISHED;
	sock->state = SS_CONNECTED;

	return ctx;
}

static unsigned long zc_user_memory(struct kunit *test, unsigned int pages)
{
	unsigned long addr;

	addr = kunit_vm_mmap(test, NULL, 0, pages * PAGE_SIZE,
			     PROT_READ | PROT_WRITE,
			     MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_NE_MSG(test, addr, 0, "no user memory");
	KUNIT_ASSERT_LT_MSG(test, addr, TASK_SIZE, "no user memory");

	return addr;
}

static unsigned long zc_mmap_socket(struct kunit *test, struct file *file,
				    unsigned int pages)
{
	unsigned long addr;

	addr = kunit_vm_mmap(test, file, 0, pages * PAGE_SIZE, PROT_READ,
			     MAP_SHARED, 0);
	KUNIT_ASSERT_NE_MSG(test, addr, 0, "no mapping");
	KUNIT_ASSERT_LT_MSG(test, addr, TASK_SIZE, "no mapping");

	return addr;
}

/* Map the socket: a page of headers and @pages pages for data. */
static void zc_map(struct kunit *test, unsigned int pages)
{
	struct zc_ctx *ctx = test->priv;

	ctx->map_pages = 1 + pages;
	ctx->map = zc_mmap_socket(test, ctx->file, ctx->map_pages);
	ctx->user = zc_user_memory(test, 2);
}

static struct zc_ctx *zc_connect_and_map(struct kunit *test, int type,
					 unsigned int pages)
{
	struct zc_ctx *ctx = zc_connect(test, type);

	zc_map(test, pages);

	return ctx;
}

/* Queue a packet; the bytes are written here. */
static void zc_queue(struct kunit *test, struct sk_buff *skb, u32 flags)
{
	struct zc_ctx *ctx = test->priv;
	u32 done = 0;

	zc_cb(skb)->offset = 0;
	zc_cb(skb)->flags = flags;
	__skb_queue_tail(&ctx->queue, skb);

	while (done < skb->len) {
		u32 i, n = min_t(u32, skb->len - done, PAGE_SIZE);

		for (i = 0; i < n; i++)
			ctx->buf[i] = zc_byte(ctx->sent + done + i);
		KUNIT_ASSERT_EQ(test, skb_store_bits(skb, done, ctx->buf, n), 0);
		done += n;
	}
	ctx->sent += skb->len;
}

static struct sk_buff *zc_alloc(struct kunit *test, u32 linear)
{
	struct sk_buff *skb = alloc_skb(linear, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	memset(skb->cb, 0, sizeof(skb->cb));

	return skb;
}

/* A packet of @len bytes in page fragments, in folios up to order @order. */
static struct sk_buff *zc_frags(struct kunit *test, u32 len, int order)
{
	struct sk_buff *skb;
	int i, err;

	skb = alloc_skb_with_frags(0, len, order, &err, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb->len = len;
	skb->data_len = len;
	memset(skb->cb, 0, sizeof(skb->cb));

	for (i = 0; i < skb_shinfo(skb)->nr_frags; i++) {
		struct page *page = skb_frag_page(&skb_shinfo(skb)->frags[i]);

		memset(page_address(page), POISON, page_size(page));
	}

	return skb;
}

static void zc_queue_frags(struct kunit *test, u32 len, int order, u32 flags)
{
	zc_queue(test, zc_frags(test, len, order), flags);
}

static void zc_queue_linear(struct kunit *test, u32 len, u32 flags)
{
	struct sk_buff *skb = zc_alloc(test, len);

	skb_put(skb, len);
	zc_queue(test, skb, flags);
}

static void zc_add_frag(struct sk_buff *skb, struct page *page, u32 off,
			u32 len)
{
	skb_add_rx_frag(skb, skb_shinfo(skb)->nr_frags, page, off, len, len);
}

static struct page *zc_pages(struct kunit *test, int order)
{
	struct page *page = alloc_pages(GFP_KERNEL | __GFP_COMP, order);

	KUNIT_ASSERT_NOT_NULL(test, page);
	memset(page_address(page), POISON, PAGE_SIZE << order);

	return page;
}

/* A packet of @len bytes at @off in a folio of order @order. */
static struct sk_buff *zc_folio(struct kunit *test, int order, u32 off, u32 len)
{
	struct sk_buff *skb = zc_alloc(test, 0);

	zc_add_frag(skb, zc_pages(test, order), off, len);

	return skb;
}

/* Pretend that @bytes bytes of the only packet were received by recv(). */
static void zc_skip(struct zc_ctx *ctx, u32 bytes)
{
	zc_cb(skb_peek(&ctx->queue))->offset += bytes;
	ctx->received += bytes;
}

/* References to a page's folio, but for those of mappings. */
static int zc_refs(struct page *page)
{
	struct folio *folio = page_folio(page);

	return folio_ref_count(folio) - folio_mapcount(folio);
}

/* Note what is queued, and in which pages. */
static void zc_snapshot(struct kunit *test)
{
	struct zc_ctx *ctx = test->priv;
	struct sk_buff *skb;

	ctx->takes = 0;
	ctx->nr_pieces = 0;
	ctx->nr_pages = 0;
	ctx->nr_packets = skb_queue_len(&ctx->queue);
	ctx->queued = zc_stream_has_data(ctx->vsk);

	skb_queue_walk(&ctx->queue, skb) {
		int i;

		if (zc_offered(ctx, skb)) {
			struct zc_piece *piece = &ctx->pieces[ctx->nr_pieces++];

			KUNIT_ASSERT_LT(test, ctx->nr_pieces, MAX_PIECES);
			piece->len = skb->len - zc_cb(skb)->offset;
			piece->flags = zc_cb(skb)->flags;
		}

		for (i = 0; i < skb_shinfo(skb)->nr_frags; i++) {
			const skb_frag_t *frag = &skb_shinfo(skb)->frags[i];
			u32 end = skb_frag_off(frag) + skb_frag_size(frag);
			u32 off = round_down(skb_frag_off(frag), PAGE_SIZE);

			for (; off < end; off += PAGE_SIZE) {
				struct page *page = skb_frag_page(frag);

				KUNIT_ASSERT_LT(test, ctx->nr_pages, MAX_PAGES);
				page += off / PAGE_SIZE;
				ctx->refs[ctx->nr_pages] = zc_refs(page);
				ctx->pages[ctx->nr_pages++] = page;
			}
		}
	}
}

static bool zc_is_queued(const struct zc_ctx *ctx, const struct page *page)
{
	u32 i;

	for (i = 0; i < ctx->nr_pages; i++) {
		if (ctx->pages[i] == page)
			return true;
	}

	return false;
}

/* The page that is mapped at an address, with a reference, or NULL. */
static struct page *zc_get_page(unsigned long addr)
{
	struct page *page;

	return get_user_pages_fast(addr, 1, 0, &page) == 1 ? page : NULL;
}

static struct page *zc_page(unsigned long addr)
{
	struct page *page = zc_get_page(addr);

	if (page)
		put_page(page);

	return page;
}

static int zc_getsockopt(struct zc_ctx *ctx, unsigned long in,
			 unsigned long out, int len, int *outlen)
{
	const struct proto_ops *ops = READ_ONCE(ctx->sock->ops);
	sockopt_t opt = { .optlen = len, .optlen_ptr = ctx->optlen_ptr };
	int optlen, err;

	if (sockptr_is_null(opt.optlen_ptr))
		opt.optlen_ptr = KERNEL_SOCKPTR(&optlen);

	iov_iter_ubuf(&opt.iter_in, ITER_SOURCE, (void __user *)in, len);
	iov_iter_ubuf(&opt.iter_out, ITER_DEST, (void __user *)out, len);
	err = ops->getsockopt_iter(ctx->sock, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY,
				   &opt);
	*outlen = opt.optlen;

	return err;
}

/* A call with an argument of 64 bytes. */
static int zc_call(struct kunit *test, const struct vm_sockets_zerocopy *arg)
{
	struct zc_ctx *ctx = test->priv;
	int err, len;

	zc_snapshot(test);
	ctx->start = arg->address;
	ctx->nr = arg->length >> PAGE_SHIFT;
	ctx->unmapped = arg->flags & UNMAPPED;

	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)ctx->user, arg,
					   sizeof(*arg)), 0);
	err = zc_getsockopt(ctx, ctx->user, ctx->user, sizeof(*arg), &len);
	KUNIT_ASSERT_EQ(test, copy_from_user(&ctx->res,
					     (void __user *)ctx->user,
					     sizeof(ctx->res)), 0);
	KUNIT_EXPECT_EQ(test, len, sizeof(*arg));

	return err;
}

static int zc_call_range(struct kunit *test, unsigned int first,
			 unsigned int pages, u32 flags)
{
	struct zc_ctx *ctx = test->priv;
	const struct vm_sockets_zerocopy arg = {
		.address = ctx->map + first * PAGE_SIZE,
		.length = pages * PAGE_SIZE,
		.flags = flags,
	};

	return zc_call(test, &arg);
}

static int zc_call_all(struct kunit *test)
{
	struct zc_ctx *ctx = test->priv;

	return zc_call_range(test, 0, ctx->map_pages, 0);
}

/* The short form: the address of a mapping, all of which is used. */
static int zc_call_short(struct kunit *test, u64 addr)
{
	struct zc_ctx *ctx = test->priv;
	int err, len;

	zc_snapshot(test);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)ctx->user, &addr,
					   sizeof(addr)), 0);
	err = zc_getsockopt(ctx, ctx->user, ctx->user, sizeof(addr), &len);
	KUNIT_EXPECT_EQ(test, len, sizeof(addr));

	return err;
}

/* One page of data: @len bytes that come next in the stream, then zeroes. */
static void zc_check_page(struct kunit *test, unsigned long addr, u32 len)
{
	struct zc_ctx *ctx = test->priv;
	u32 i;

	KUNIT_ASSERT_EQ_MSG(test, copy_from_user(ctx->buf, (void __user *)addr,
						 PAGE_SIZE), 0,
			    "page %lu is not mapped",
			    (addr - ctx->start) / PAGE_SIZE);
	for (i = 0; i < PAGE_SIZE; i++) {
		u8 byte = i < len ? zc_byte(ctx->received + i) : 0;

		if (ctx->buf[i] != byte)
			break;
	}
	KUNIT_ASSERT_EQ_MSG(test, i, PAGE_SIZE,
			    "page %lu of %u bytes: byte %u is %#x, stream at %llu",
			    (addr - ctx->start) / PAGE_SIZE, len, i,
			    ctx->buf[i % PAGE_SIZE], ctx->received);
	ctx->received += len;
}

/* Hold one header against the packets that were queued: @pos is the first one
 * that is not used up.
 */
static void zc_check_header(struct kunit *test, u32 nr, u32 *pos)
{
	struct zc_ctx *ctx = test->priv;
	u32 flags = ctx->hdrs[nr].flags & ~COPIED, len = ctx->hdrs[nr].len;
	struct zc_piece *piece = &ctx->pieces[*pos];
	u32 ended = 0;

	/* A packet without bytes is seen if it ends a message. */
	while (*pos < ctx->nr_pieces && !piece->len && !piece->flags) {
		piece++;
		(*pos)++;
	}

	if (!len) {
		KUNIT_ASSERT_LT(test, *pos, ctx->nr_pieces);
		KUNIT_ASSERT_EQ(test, piece->len, 0);
		ended = piece->flags;
		(*pos)++;
	}

	while (len) {
		u32 n;

		KUNIT_ASSERT_LT(test, *pos, ctx->nr_pieces);
		KUNIT_ASSERT_EQ_MSG(test, ended, 0,
				    "header %u goes beyond a message", nr);
		n = min(len, piece->len);
		piece->len -= n;
		len -= n;
		if (!piece->len) {
			ended = piece->flags;
			piece++;
			(*pos)++;
		}
	}
	KUNIT_ASSERT_EQ_MSG(test, flags, ended, "header %u", nr);
}

/* Check all that a call must have done that says that it worked: the process
 * sees the bytes that were next, each once, and nothing else; they have left
 * the queue, and no others.
 */
static void zc_check(struct kunit *test)
{
	struct zc_ctx *ctx = test->priv;
	u32 i, nr_hdrs, pos = 0, page = 1, left = 0;
	u64 bytes = 0, copied = 0;
	struct sk_buff *skb;

	KUNIT_ASSERT_EQ(test, copy_from_user(ctx->hdrs,
					     (void __user *)ctx->start,
					     PAGE_SIZE), 0);
	KUNIT_EXPECT_FALSE_MSG(test, zc_is_queued(ctx, zc_page(ctx->start)),
			       "the headers are in a page of a packet");

	for (nr_hdrs = 0; nr_hdrs < HEADERS; nr_hdrs++) {
		if (!ctx->hdrs[nr_hdrs].flags && !ctx->hdrs[nr_hdrs].len)
			break;
	}
	KUNIT_ASSERT_NULL(test, memchr_inv(ctx->hdrs + nr_hdrs, 0,
					   (HEADERS - nr_hdrs) *
					   sizeof(ctx->hdrs[0])));
	KUNIT_ASSERT_EQ(test, ctx->res.headers, nr_hdrs);

	for (i = 0; i < nr_hdrs; i++) {
		bool is_copy = ctx->hdrs[i].flags & COPIED;
		u32 len = ctx->hdrs[i].len;

		zc_check_header(test, i, &pos);
		bytes += len;
		if (is_copy)
			copied += len;
		while (len) {
			unsigned long addr = ctx->start + page * PAGE_SIZE;
			u32 n = min_t(u32, len, PAGE_SIZE);

			KUNIT_ASSERT_LT(test, page, ctx->nr);
			zc_check_page(test, addr, n);
			KUNIT_EXPECT_EQ_MSG(test,
					    zc_is_queued(ctx, zc_page(addr)),
					    !is_copy, "page %u", page);
			len -= n;
			page++;
		}
	}
	/* What was there before has gone, if it was to go. */
	for (; page < ctx->nr && !ctx->unmapped; page++)
		KUNIT_EXPECT_NULL(test, zc_page(ctx->start + page * PAGE_SIZE));

	KUNIT_EXPECT_EQ(test, ctx->res.bytes, bytes);
	KUNIT_EXPECT_EQ(test, ctx->res.copied, copied);
	KUNIT_EXPECT_EQ(test, ctx->res.queued, ctx->queued - bytes);
	KUNIT_EXPECT_EQ(test, ctx->res.reserved2, 0);

	/* The queue begins where that ended. */
	KUNIT_EXPECT_FALSE(test, ctx->bad_take);
	KUNIT_EXPECT_EQ(test, zc_stream_has_data(ctx->vsk), ctx->queued - bytes);
	for (; pos < ctx->nr_pieces; pos++)
		left += ctx->pieces[pos].len || ctx->pieces[pos].flags;
	KUNIT_EXPECT_EQ(test, !!(ctx->res.status & MORE), !!left);
	skb_queue_walk(&ctx->queue, skb) {
		if (zc_offered(ctx, skb) &&
		    (skb->len > zc_cb(skb)->offset || zc_cb(skb)->flags))
			left--;
	}
	KUNIT_EXPECT_EQ_MSG(test, left, 0, "another number of packets is left");
}

/* A call that must work, on the whole mapping. */
static void zc_receive(struct kunit *test)
{
	KUNIT_ASSERT_EQ(test, zc_call_all(test), 0);
	zc_check(test);
}

/* Calls that must work, until nothing is left. */
static void zc_receive_all(struct kunit *test)
{
	struct zc_ctx *ctx = test->priv;

	do {
		zc_receive(test);
		if (ctx->res.status & MORE)
			KUNIT_ASSERT_GT(test, ctx->res.headers, 0);
	} while (ctx->res.status & MORE);
	KUNIT_EXPECT_EQ(test, ctx->received, ctx->sent);
}

static void zc_expect_headers(struct kunit *test,
			      const struct virtio_vsock_usr_hdr *hdrs, u32 nr)
{
	struct zc_ctx *ctx = test->priv;
	u32 i;

	KUNIT_EXPECT_EQ(test, ctx->res.headers, nr);
	for (i = 0; i < nr; i++) {
		KUNIT_EXPECT_EQ_MSG(test, ctx->hdrs[i].flags, hdrs[i].flags,
				    "header %u", i);
		KUNIT_EXPECT_EQ_MSG(test, ctx->hdrs[i].len, hdrs[i].len,
				    "header %u", i);
	}
}

#define ZC_EXPECT_HEADERS(test, ...)					    \
do {									    \
	static const struct virtio_vsock_usr_hdr hdrs_[] = { __VA_ARGS__ }; \
	zc_expect_headers(test, hdrs_, ARRAY_SIZE(hdrs_));		    \
} while (0)

/* Check that a call that failed has not touched the queue. */
static void zc_check_queue(struct kunit *test)
{
	struct zc_ctx *ctx = test->priv;
	u32 i;

	KUNIT_EXPECT_EQ_MSG(test, ctx->takes, 0, "packets were taken");
	KUNIT_EXPECT_EQ(test, skb_queue_len(&ctx->queue), ctx->nr_packets);
	KUNIT_EXPECT_EQ(test, zc_stream_has_data(ctx->vsk), ctx->queued);
	for (i = 0; i < ctx->nr_pages; i++) {
		KUNIT_EXPECT_EQ_MSG(test, zc_refs(ctx->pages[i]), ctx->refs[i],
				    "page %u of the queue", i);
	}
}

/* And that nothing is mapped; nothing was before. */
static void zc_check_failed(struct kunit *test)
{
	struct zc_ctx *ctx = test->priv;
	u32 i;

	zc_check_queue(test);
	for (i = 0; i < ctx->map_pages; i++) {
		KUNIT_EXPECT_NULL_MSG(test, zc_page(ctx->map + i * PAGE_SIZE),
				      "page %u is still mapped", i);
	}
}

/* Unmap, and look for somebody who still holds what was mapped. */
static void zc_check_references(struct kunit *test)
{
	struct zc_ctx *ctx = test->priv;
	struct page **held, *headers = zc_page(ctx->start);
	u32 i, j, nr = 0;

	zc_snapshot(test);
	held = kunit_kcalloc(test, ctx->map_pages, sizeof(*held), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, held);
	for (i = 0; i < ctx->map_pages; i++) {
		held[nr] = zc_get_page(ctx->map + i * PAGE_SIZE);
		nr += !!held[nr];
	}
	vm_munmap(ctx->map, ctx->map_pages * PAGE_SIZE);

	for (i = 0; i < nr; i++) {
		struct folio *folio = page_folio(held[i]);
		int refs = zc_is_queued(ctx, held[i]);

		for (j = 0; j < nr; j++)
			refs += page_folio(held[j]) == folio;
		/* A socket may keep its page of headers for the next call. */
		if (held[i] == headers && folio_ref_count(folio) == refs + 1)
			continue;
		KUNIT_EXPECT_EQ_MSG(test, folio_ref_count(folio), refs,
				    "mapped page %u", i);
		KUNIT_EXPECT_EQ(test, folio_mapcount(folio), 0);
	}
	for (i = 0; i < nr; i++)
		put_page(held[i]);
}

/* The worked example of the documentation. */
static void zc_worked_example(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 8);
	struct page *last;

	zc_queue_frags(test, 56, 4, 0);
	zc_queue_frags(test, 4096, 4, 0);
	zc_queue_frags(test, 8200, 4, 0);
	zc_receive(test);
	ZC_EXPECT_HEADERS(test, { 0, 56 }, { 0, 4096 }, { 0, 8200 });
	KUNIT_EXPECT_EQ(test, ctx->res.bytes, 56 + 4096 + 8200);
	KUNIT_EXPECT_EQ(test, ctx->res.copied, 0);
	KUNIT_EXPECT_EQ(test, ctx->res.queued, 0);
	KUNIT_EXPECT_EQ(test, ctx->res.status, 0);
	KUNIT_EXPECT_EQ(test, ctx->res.error, 0);

	/* Data pages 1, 2, 3 to 5. */
	last = zc_page(ctx->map + 5 * PAGE_SIZE);
	KUNIT_EXPECT_NOT_NULL(test, last);
	KUNIT_EXPECT_NULL(test, zc_page(ctx->map + 6 * PAGE_SIZE));
	zc_check_references(test);
}

/* The same in memory that cannot be mapped. */
static void zc_worked_example_copied(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 8);

	zc_queue_linear(test, 56, 0);
	zc_queue_linear(test, 4096, 0);
	zc_queue_linear(test, 8200, 0);
	zc_receive(test);
	ZC_EXPECT_HEADERS(test, { COPIED, 56 }, { COPIED, 4096 },
			  { COPIED, 8200 });
	KUNIT_EXPECT_EQ(test, ctx->res.copied, 56 + 4096 + 8200);
	zc_check_references(test);
}

/* Small packets in a row share pages; what is a page or more does not. */
static void zc_large_packets_share_nothing(struct kunit *test)
{
	zc_connect_and_map(test, SOCK_STREAM, 20);
	zc_queue_linear(test, 4095, 0);
	zc_queue_linear(test, 4095, 0);
	zc_queue_linear(test, 4096, 0);
	zc_queue_linear(test, 100, 0);
	zc_queue_linear(test, 5000, 0);
	zc_queue_linear(test, 5000, 0);
	zc_queue_linear(test, 1, 0);
	zc_queue_linear(test, 2, 0);
	zc_receive(test);
	ZC_EXPECT_HEADERS(test, { COPIED, 8190 }, { COPIED, 4096 },
			  { COPIED, 100 }, { COPIED, 5000 }, { COPIED, 5000 },
			  { COPIED, 3 });
	zc_check_references(test);
}

static void zc_empty_queue(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 1);

	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.headers, 0);
	KUNIT_EXPECT_EQ(test, ctx->res.status, 0);
}

/* One packet, by its length, in folios of each size. */
static const u32 zc_lens[] = {
	1, 4095, 4096, 4097, 8191, 8192, 8193, 8200, 65535, 65536,
};

static void zc_len_desc(const u32 *len, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u bytes", *len);
}

KUNIT_ARRAY_PARAM(zc_len, zc_lens, zc_len_desc);

static void zc_single_packet(struct kunit *test)
{
	const u32 *len = test->param_value;
	struct zc_ctx *ctx = zc_connect(test, SOCK_STREAM);
	int order;

	for (order = 0; order <= MAX_FOLIO; order++) {
		zc_map(test, 20);
		zc_queue_frags(test, *len, order, 0);
		zc_receive(test);
		KUNIT_EXPECT_EQ(test, ctx->res.headers, 1);
		KUNIT_EXPECT_EQ(test, ctx->res.bytes, *len);
		if (*len >= PAGE_SIZE)
			KUNIT_EXPECT_EQ_MSG(test, ctx->res.copied, 0,
					    "order %d", order);
		KUNIT_EXPECT_TRUE(test, skb_queue_empty(&ctx->queue));
		zc_check_references(test);
	}
}

static void zc_linear_packets_share_pages(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 8);
	int i;

	for (i = 0; i < 100; i++)
		zc_queue_linear(test, 100, 0);
	zc_receive(test);
	ZC_EXPECT_HEADERS(test, { COPIED, 10000 });
	KUNIT_EXPECT_EQ(test, ctx->res.copied, 10000);
	zc_check_references(test);
}

static void zc_linear_packet_of_pages(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 8);

	zc_queue_linear(test, 8200, 0);
	zc_receive(test);
	ZC_EXPECT_HEADERS(test, { COPIED, 8200 });
	KUNIT_EXPECT_EQ(test, ctx->res.queued, 0);
	zc_check_references(test);
}

/* More than is gathered at once, whatever that is. */
static void zc_linear_packets_fill_the_mapping(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 100);
	int i;

	for (i = 0; i < 500; i++)
		zc_queue_linear(test, 1000, 0);
	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.bytes, 100 * PAGE_SIZE);
	zc_receive_all(test);
	zc_check_references(test);
}

static void zc_mapped_and_copied_in_turn(struct kunit *test)
{
	zc_connect_and_map(test, SOCK_STREAM, 20);
	zc_queue_linear(test, 10, 0);
	zc_queue_linear(test, 20, 0);
	zc_queue_frags(test, 8192, 1, 0);
	zc_queue_linear(test, 30, 0);
	zc_queue_frags(test, 4096, 0, 0);
	zc_queue_frags(test, 8192, 1, 0);
	zc_queue_linear(test, 5000, 0);
	zc_receive(test);
	ZC_EXPECT_HEADERS(test, { COPIED, 30 }, { 0, 8192 }, { COPIED, 30 },
			  { 0, 4096 }, { 0, 8192 }, { COPIED, 5000 });
	zc_check_references(test);
}

/* Pages that are not the packet's own, or not only its own, are never shown. */
static void zc_put_borrowed_page(void *data)
{
	struct page *page = data;

	page->mapping = NULL;
	ClearPageLRU(page);
	ClearPageReserved(page);
	put_page(page);
}

static struct page *zc_borrow_page(struct kunit *test)
{
	struct page *page = zc_pages(test, 0);

	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test,
							zc_put_borrowed_page,
							page), 0);

	return page;
}

static struct sk_buff *zc_borrowed(struct kunit *test, struct page *page,
				   u32 off, u32 len)
{
	struct sk_buff *skb = zc_alloc(test, 0);

	zc_cb(skb)->borrowed = true;
	zc_add_frag(skb, page, off, len);

	return skb;
}

static struct sk_buff *zc_slab(struct kunit *test)
{
	void *mem = kunit_kmalloc(test, PAGE_SIZE, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mem);

	return zc_borrowed(test, virt_to_page(mem), offset_in_page(mem),
			   PAGE_SIZE);
}

static struct sk_buff *zc_large_kmalloc(struct kunit *test)
{
	void *mem = kunit_kmalloc(test, SZ_64K, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mem);

	return zc_borrowed(test, virt_to_page(mem), 0, SZ_64K);
}

static struct sk_buff *zc_page_with_mapping(struct kunit *test)
{
	static struct address_space mapping;
	struct page *page = zc_borrow_page(test);

	page->mapping = &mapping;

	return zc_borrowed(test, page, 0, PAGE_SIZE);
}

static struct sk_buff *zc_lru_page(struct kunit *test)
{
	struct page *page = zc_borrow_page(test);

	SetPageLRU(page);

	return zc_borrowed(test, page, 0, PAGE_SIZE);
}

static struct sk_buff *zc_reserved_page(struct kunit *test)
{
	struct page *page = zc_borrow_page(test);

	SetPageReserved(page);

	return zc_borrowed(test, page, 0, PAGE_SIZE);
}

static void zc_fput(void *file)
{
	fput(file);
}

static struct sk_buff *zc_page_cache(struct kunit *test)
{
	struct sk_buff *skb = zc_alloc(test, 0);
	struct file *file;
	struct page *page;

	file = shmem_file_setup("vsock_zerocopy", PAGE_SIZE, EMPTY_VMA_FLAGS);
	KUNIT_ASSERT_FALSE(test, IS_ERR(file));
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, zc_fput, file), 0);
	page = shmem_read_mapping_page(file->f_mapping, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(page));
	zc_add_frag(skb, page, 0, PAGE_SIZE);

	return skb;
}

static struct sk_buff *zc_anonymous_page(struct kunit *test)
{
	unsigned long addr = zc_user_memory(test, 1);
	struct sk_buff *skb = zc_alloc(test, 0);
	struct page *page;

	KUNIT_ASSERT_EQ(test, get_user_pages_fast(addr, 1, FOLL_WRITE, &page),
			1);
	zc_add_frag(skb, page, 0, PAGE_SIZE);

	return skb;
}

static void zc_ubuf_complete(struct sk_buff *skb, struct ubuf_info *uarg,
			     bool success)
{
}

static const struct ubuf_info_ops zc_ubuf_ops = {
	.complete = zc_ubuf_complete,
};

static struct sk_buff *zc_zerocopy_skb(struct kunit *test)
{
	static struct ubuf_info uarg = {
		.ops = &zc_ubuf_ops,
		.flags = SKBFL_ZEROCOPY_ENABLE,
	};
	struct sk_buff *skb = zc_folio(test, 0, 0, PAGE_SIZE);

	skb_zcopy_init(skb, &uarg);

	return skb;
}

static struct sk_buff *zc_shared_frags(struct kunit *test)
{
	struct sk_buff *skb = zc_folio(test, 1, 0, 2 * PAGE_SIZE);

	skb_shinfo(skb)->flags |= SKBFL_SHARED_FRAG;

	return skb;
}

static struct sk_buff *zc_recycled_pages(struct kunit *test)
{
	struct sk_buff *skb = zc_folio(test, 0, 0, PAGE_SIZE);

	skb->pp_recycle = 1;

	return skb;
}

static struct sk_buff *zc_off_by_a_page(struct kunit *test)
{
	return zc_folio(test, 1, PAGE_SIZE, PAGE_SIZE);
}

static struct sk_buff *zc_off_by_bytes(struct kunit *test)
{
	return zc_folio(test, 1, 100, PAGE_SIZE);
}

static struct sk_buff *zc_middle_of_a_folio(struct kunit *test)
{
	struct sk_buff *skb = zc_alloc(test, 0);

	zc_add_frag(skb, zc_pages(test, 1) + 1, 0, PAGE_SIZE);

	return skb;
}

static void zc_put_page(void *page)
{
	put_page(page);
}

static struct sk_buff *zc_second_user(struct kunit *test)
{
	struct page *page = zc_pages(test, 2);
	struct sk_buff *skb = zc_alloc(test, 0);

	zc_add_frag(skb, page, 0, 4 * PAGE_SIZE);
	get_page(page);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, zc_put_page,
							page), 0);

	return skb;
}

static struct sk_buff *zc_head_and_frags(struct kunit *test)
{
	struct sk_buff *skb = zc_alloc(test, 100);

	skb_put(skb, 100);
	zc_add_frag(skb, zc_pages(test, 0), 0, PAGE_SIZE);

	return skb;
}

/* The last bytes of the fragments are the payload, as for recv(). */
static struct sk_buff *zc_more_frags_than_payload(struct kunit *test)
{
	struct sk_buff *skb = zc_folio(test, 1, 0, 2 * PAGE_SIZE);

	skb->len = 100;

	return skb;
}

static struct sk_buff *zc_frag_list(struct kunit *test)
{
	struct sk_buff *skb = zc_folio(test, 0, 0, PAGE_SIZE);
	struct sk_buff *next = zc_folio(test, 0, 0, PAGE_SIZE);

	skb_shinfo(skb)->frag_list = next;
	skb->len += next->len;
	skb->data_len += next->len;

	return skb;
}

#ifdef CONFIG_PAGE_POOL
static void zc_clear_page_pool(void *data)
{
	struct page *page = data;

	page->pp_magic = 0;
}

static struct sk_buff *zc_page_pool_page(struct kunit *test)
{
	struct page *page = zc_borrow_page(test);

	page->pp_magic = PP_SIGNATURE;
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test,
							zc_clear_page_pool,
							page), 0);

	return zc_borrowed(test, page, 0, PAGE_SIZE);
}
#endif

struct zc_foreign_param {
	const char *desc;
	struct sk_buff *(*make)(struct kunit *test);
};

static const struct zc_foreign_param zc_foreign_params[] = {
	{ "slab", zc_slab },
	{ "large kmalloc", zc_large_kmalloc },
	{ "page with a mapping", zc_page_with_mapping },
	{ "page on the LRU", zc_lru_page },
	{ "reserved page", zc_reserved_page },
	{ "page cache", zc_page_cache },
	{ "anonymous page", zc_anonymous_page },
	{ "zero-copy sender", zc_zerocopy_skb },
	{ "shared fragments", zc_shared_frags },
	{ "skb of a page pool", zc_recycled_pages },
#ifdef CONFIG_PAGE_POOL
	{ "page of a page pool", zc_page_pool_page },
#endif
	{ "offset of a page", zc_off_by_a_page },
	{ "offset of 100 bytes", zc_off_by_bytes },
	{ "middle of a folio", zc_middle_of_a_folio },
	{ "folio with a second user", zc_second_user },
	{ "linear part and fragments", zc_head_and_frags },
	{ "more in fragments than payload", zc_more_frags_than_payload },
	{ "list of fragments", zc_frag_list },
};

KUNIT_ARRAY_PARAM_DESC(zc_foreign, zc_foreign_params, desc);

static void zc_foreign_pages(struct kunit *test)
{
	const struct zc_foreign_param *p = test->param_value;
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 24);
	struct sk_buff *skb;
	u32 len;

	zc_queue_frags(test, 8192, 1, 0);
	skb = p->make(test);
	len = skb->len;
	zc_queue(test, skb, 0);
	zc_queue_frags(test, 8192, 1, 0);
	zc_receive_all(test);
	KUNIT_EXPECT_EQ(test, ctx->res.copied, len);
	KUNIT_EXPECT_EQ(test, ctx->res.bytes, len + 2 * 8192);
}

/* A page that is mapped keeps its whole folio. */
struct zc_share_param {
	const char *desc;
	int order;
	u32 len;
	bool mapped;
};

static const struct zc_share_param zc_share_params[] = {
	{ "1 page of 4", 2, 4096, false },
	{ "2 pages of 4", 2, 8192, true },
	{ "a page and a byte of 4", 2, 4097, true },
	{ "3 pages of 4", 2, 12288, true },
	{ "1 page of 16", 4, 4096, false },
	{ "7 pages of 16", 4, 7 * 4096, false },
	{ "8 pages of 16", 4, 8 * 4096, true },
	{ "16 pages of 16", 4, 16 * 4096, true },
};

KUNIT_ARRAY_PARAM_DESC(zc_share, zc_share_params, desc);

static void zc_share_of_a_folio(struct kunit *test)
{
	const struct zc_share_param *p = test->param_value;
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 20);

	zc_queue(test, zc_folio(test, p->order, 0, p->len), 0);
	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.bytes, p->len);
	KUNIT_EXPECT_EQ(test, ctx->res.copied, p->mapped ? 0 : p->len);
	zc_check_references(test);
}

/* There is room for less than half of a folio. */
static void zc_room_for_a_small_share(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 7);

	zc_queue_frags(test, 65536, 4, 0);
	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.bytes, 7 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, ctx->res.copied, 7 * PAGE_SIZE);
	zc_receive_all(test);
	zc_check_references(test);
}

/* recv() has had the beginning of a packet. */
static const u32 zc_offsets[] = {
	1, 100, 4095, 4096, 4097, 8191, 8192, 8193, 16383,
};

KUNIT_ARRAY_PARAM(zc_offset, zc_offsets, zc_len_desc);

static void zc_check_partly_read(struct kunit *test, u32 offset, u32 len)
{
	struct zc_ctx *ctx = test->priv;

	zc_skip(ctx, offset);
	zc_queue_frags(test, 5000, 1, 0);
	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.bytes, len - offset + 5000);
	KUNIT_EXPECT_EQ(test, ctx->res.queued, 0);
	zc_check_references(test);
}

static void zc_partly_read(struct kunit *test)
{
	const u32 *offset = test->param_value;
	int order;

	zc_connect(test, SOCK_STREAM);
	for (order = 0; order <= MAX_FOLIO; order++) {
		u32 len = max(16384, PAGE_SIZE << order);

		zc_map(test, 20);
		zc_queue_frags(test, len, order, 0);
		zc_check_partly_read(test, *offset, len);
	}
}

static void zc_partly_read_linear(struct kunit *test)
{
	const u32 *offset = test->param_value;

	zc_connect_and_map(test, SOCK_STREAM, 20);
	zc_queue_linear(test, 16384, 0);
	zc_check_partly_read(test, *offset, 16384);
}

/* The rest of a packet that was partly read, with room for only a part. */
static void zc_partly_read_in_pieces(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 1);
	u32 i;

	for (i = 0; i < 9; i++) {
		zc_queue_frags(test, 20000, i % 4, 0);
		zc_skip(ctx, 1 + i * 1111);
		zc_receive_all(test);
	}
	zc_check_references(test);
}

/* Mappings that are smaller than what is queued. */
static const unsigned int zc_room_pages[] = {
	1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17,
};

static void zc_room_desc(const unsigned int *pages, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u data pages", *pages);
}

KUNIT_ARRAY_PARAM(zc_room, zc_room_pages, zc_room_desc);

static void zc_room(struct kunit *test)
{
	const unsigned int *room = test->param_value;
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, *room);
	int i;

	for (i = 0; i < 5; i++)
		zc_queue_frags(test, 65536, i, 0);
	do {
		u32 pages = min(*room, zc_stream_has_data(ctx->vsk) / PAGE_SIZE);

		zc_receive(test);
		KUNIT_EXPECT_EQ(test, ctx->res.bytes, pages * PAGE_SIZE);
	} while (ctx->res.status & MORE);
	KUNIT_EXPECT_EQ(test, ctx->received, ctx->sent);
	zc_check_references(test);
}

/* Small packets and packets of odd sizes, into each of those. */
static void zc_room_odd_packets(struct kunit *test)
{
	const unsigned int *room = test->param_value;
	int i;

	zc_connect_and_map(test, SOCK_STREAM, *room);
	for (i = 0; i < 20; i++) {
		zc_queue_linear(test, 1 + i * 300, 0);
		zc_queue_frags(test, 4000 + i * 1000, i % 5, 0);
	}
	zc_receive_all(test);
	zc_check_references(test);
}

/* The mapping has room for more than is inserted at once. */
static void zc_many_pages(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 300);
	int i;

	for (i = 0; i < 18; i++)
		zc_queue_frags(test, 16 * PAGE_SIZE, i % 5, 0);
	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.bytes, 18 * 16 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, ctx->res.copied, 0);
	zc_check_references(test);
}

/* Nothing that a packet's end could fall together with is even. */
static void zc_many_odd_packets(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 300);
	int i;

	for (i = 0; i < 20; i++) {
		zc_queue_frags(test, 13 * PAGE_SIZE - i, i % 5, 0);
		if (i % 3 == 0)
			zc_queue_linear(test, 7000, 0);
	}
	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.queued, 0);
	KUNIT_EXPECT_EQ(test, ctx->received, ctx->sent);
	zc_check_references(test);
}

/* A folio's pages lie on both sides of a page table's end. */
static void zc_across_page_tables(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect(test, SOCK_STREAM);
	int round, i;

	for (round = 0; round < 2; round++) {
		zc_map(test, 1100);
		zc_queue_frags(test, (5 + round) * PAGE_SIZE, 0, 0);
		for (i = 0; i < 68; i++)
			zc_queue_frags(test, 16 * PAGE_SIZE, 4, 0);
		zc_receive(test);
		KUNIT_EXPECT_EQ(test, ctx->res.copied, 0);
		KUNIT_EXPECT_EQ(test, ctx->res.queued, 0);
		zc_check_references(test);
	}
}

static void zc_many_single_pages(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 600);
	int i;

	for (i = 0; i < 550; i++)
		zc_queue_frags(test, PAGE_SIZE, 0, 0);
	zc_receive(test);
	/* There is no room for more headers. */
	KUNIT_EXPECT_EQ(test, ctx->res.headers, HEADERS);
	KUNIT_EXPECT_EQ(test, ctx->res.bytes, HEADERS * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, ctx->res.status, MORE);
	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.headers, 550 - HEADERS);
	KUNIT_EXPECT_EQ(test, ctx->res.status, 0);
	zc_check_references(test);
}

static void zc_600_empty_messages(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_SEQPACKET, 1);
	int i;

	for (i = 0; i < 600; i++)
		zc_queue_linear(test, 0, i % 3 ? EOM : EOM | EOR);
	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.headers, HEADERS);
	KUNIT_EXPECT_EQ(test, ctx->res.status, MORE);
	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.headers, 600 - HEADERS);
	KUNIT_EXPECT_EQ(test, ctx->res.status, 0);
	KUNIT_EXPECT_TRUE(test, skb_queue_empty(&ctx->queue));
}

/* The page of headers is full, and the end of a message is the next one. */
static void zc_headers_end_in_a_message(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_SEQPACKET, 8);
	int i;

	for (i = 1; i < HEADERS; i++)
		zc_queue_linear(test, 0, EOM);
	zc_queue_frags(test, 4096, 0, 0);
	zc_queue_linear(test, 0, EOM | EOR);
	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.status, MORE);
	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.status, 0);
	KUNIT_EXPECT_EQ(test, ctx->received, ctx->sent);
}

static void zc_empty_messages_between_data(struct kunit *test)
{
	zc_connect_and_map(test, SOCK_SEQPACKET, 8);
	zc_queue_linear(test, 0, EOM);
	zc_queue_frags(test, 4096, 0, EOM | EOR);
	zc_queue_linear(test, 0, EOM | EOR);
	zc_queue_linear(test, 0, EOM);
	zc_queue_linear(test, 10, EOM);
	zc_queue_linear(test, 0, EOM);
	zc_receive(test);
	ZC_EXPECT_HEADERS(test, { EOM, 0 }, { EOM | EOR, 4096 },
			  { EOM | EOR, 0 }, { EOM, 0 }, { EOM | COPIED, 10 },
			  { EOM, 0 });
}

static void zc_empty_packets_on_a_stream(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 4);

	zc_queue_linear(test, 0, 0);
	zc_queue_frags(test, 4096, 0, 0);
	zc_queue_linear(test, 0, 0);
	zc_queue_linear(test, 0, 0);
	zc_queue_frags(test, 4096, 0, 0);
	zc_queue_linear(test, 0, 0);
	zc_receive(test);
	ZC_EXPECT_HEADERS(test, { 0, 4096 }, { 0, 4096 });
	KUNIT_EXPECT_EQ(test, ctx->res.status, 0);
}

/* Only those are queued: they are no reason to call again. */
static void zc_nothing_but_empty_packets(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 1);
	int i;

	for (i = 0; i < 600; i++)
		zc_queue_linear(test, 0, 0);
	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.headers, 0);
	KUNIT_EXPECT_EQ(test, ctx->res.status, 0);
}

/* A message of several packets ends once. */
static void zc_message_of_packets(struct kunit *test)
{
	zc_connect_and_map(test, SOCK_SEQPACKET, 16);
	zc_queue_frags(test, 8192, 1, 0);
	zc_queue_frags(test, 4096, 0, 0);
	zc_queue_frags(test, 4196, 0, EOM | EOR);
	zc_queue_frags(test, 4096, 0, EOM);
	zc_receive(test);
	ZC_EXPECT_HEADERS(test, { 0, 8192 }, { 0, 4096 }, { EOM | EOR, 4196 },
			  { EOM, 4096 });
}

static void zc_copies_end_with_a_message(struct kunit *test)
{
	zc_connect_and_map(test, SOCK_SEQPACKET, 16);
	zc_queue_linear(test, 100, 0);
	zc_queue_linear(test, 100, 0);
	zc_queue_linear(test, 100, EOM);
	zc_queue_linear(test, 50, EOM | EOR);
	zc_queue_linear(test, 400, 0);
	zc_queue_linear(test, 50, EOM);
	zc_receive(test);
	ZC_EXPECT_HEADERS(test, { EOM | COPIED, 300 },
			  { EOM | EOR | COPIED, 50 }, { EOM | COPIED, 450 });
	zc_check_references(test);
}

/* Count what ends messages in the calls that it takes to receive everything. */
static u32 zc_receive_messages(struct kunit *test)
{
	struct zc_ctx *ctx = test->priv;
	u32 i, ends = 0;

	do {
		zc_receive(test);
		for (i = 0; i < ctx->res.headers; i++)
			ends += !!(ctx->hdrs[i].flags & EOM);
	} while (ctx->res.status & MORE);
	KUNIT_EXPECT_EQ(test, ctx->received, ctx->sent);

	return ends;
}

static void zc_message_split_by_room(struct kunit *test)
{
	const unsigned int *room = test->param_value;

	zc_connect_and_map(test, SOCK_SEQPACKET, *room);
	zc_queue_frags(test, 9 * PAGE_SIZE, 0, EOM | EOR);
	zc_queue_frags(test, 5 * PAGE_SIZE + 1, 4, EOM);
	zc_queue_linear(test, 3 * PAGE_SIZE, EOM);
	zc_queue_frags(test, 2 * PAGE_SIZE, 1, 0);
	zc_queue_linear(test, 3 * PAGE_SIZE + 5, EOM | EOR);
	KUNIT_EXPECT_EQ(test, zc_receive_messages(test), 4);
	zc_check_references(test);
}

/* Messages of more pages than are inserted at once. */
static void zc_long_messages(struct kunit *test)
{
	int i;

	zc_connect_and_map(test, SOCK_SEQPACKET, 200);
	for (i = 0; i < 12; i++)
		zc_queue_frags(test, 13 * PAGE_SIZE + i, i % 5,
			       i % 4 == 3 ? EOM : 0);
	for (i = 0; i < 9; i++)
		zc_queue_linear(test, 20000, i % 3 == 2 ? EOM | EOR : 0);
	KUNIT_EXPECT_EQ(test, zc_receive_messages(test), 6);
	zc_check_references(test);
}

static void zc_message_ended_by_an_empty_packet(struct kunit *test)
{
	zc_connect_and_map(test, SOCK_SEQPACKET, 8);
	zc_queue_frags(test, 4096, 0, 0);
	zc_queue_linear(test, 0, EOM | EOR);
	zc_queue_linear(test, 100, 0);
	zc_queue_linear(test, 0, 0);
	zc_queue_linear(test, 0, EOM);
	KUNIT_EXPECT_EQ(test, zc_receive_messages(test), 2);
}

/* The same, and the data fill the mapping. */
static void zc_message_ended_without_room(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_SEQPACKET, 1);

	zc_queue_frags(test, 4096, 0, 0);
	zc_queue_linear(test, 0, EOM);
	zc_queue_frags(test, 4096, 0, EOM);
	KUNIT_EXPECT_EQ(test, zc_receive_messages(test), 2);
	KUNIT_EXPECT_TRUE(test, skb_queue_empty(&ctx->queue));
}

static void zc_incomplete_message(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_SEQPACKET, 16);

	zc_queue_frags(test, 4096, 0, 0);
	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.headers, 0);
	KUNIT_EXPECT_EQ(test, ctx->res.status, 0);
	KUNIT_EXPECT_EQ(test, ctx->res.queued, 4096);

	zc_queue_frags(test, 4096, 0, EOM);
	zc_queue_frags(test, 4096, 0, 0);
	zc_receive(test);
	ZC_EXPECT_HEADERS(test, { 0, 4096 }, { EOM, 4096 });
	KUNIT_EXPECT_EQ(test, ctx->res.status, 0);
	KUNIT_EXPECT_EQ(test, ctx->res.queued, 4096);
}

/* Failures on request. */
static int zc_insert_pages(struct vm_area_struct *vma, unsigned long addr,
			   struct page **pages, unsigned long *left)
{
	struct zc_ctx *ctx = kunit_get_current_test()->priv;
	unsigned long nr = min(*left, ctx->insert_room), rest = nr;
	int err = 0;

	if (nr)
		err = vm_insert_pages(vma, addr, pages, &rest);
	ctx->insert_room -= nr - rest;
	*left -= nr - rest;
	if (err || !*left)
		return err;

	if (ctx->insert_once)
		ctx->insert_room = ULONG_MAX;

	return ctx->insert_err;
}

static struct page *zc_alloc_headers(void)
{
	return NULL;
}

static struct sk_buff *zc_alloc_gather(u32 len)
{
	struct zc_ctx *ctx = kunit_get_current_test()->priv;
	int err;

	if (!ctx->gather_room)
		return NULL;
	ctx->gather_room--;

	return alloc_skb_with_frags(0, len, 4, &err, GFP_KERNEL);
}

/* Insertion fails after some pages. Pages of a packet, of copies and of a
 * packet again are to be inserted: 1 + 8 + 3 + 4 with the headers.
 */
struct zc_insert_param {
	const char *desc;
	int type;
	int err;
	bool once;
};

static const struct zc_insert_param zc_insert_params[] = {
	{ "ENOMEM, stream", SOCK_STREAM, -ENOMEM },
	{ "ENOMEM, seqpacket", SOCK_SEQPACKET, -ENOMEM },
	{ "EBUSY, stream", SOCK_STREAM, -EBUSY },
	{ "EBUSY once, stream", SOCK_STREAM, -EBUSY, true },
	{ "EBUSY once, seqpacket", SOCK_SEQPACKET, -EBUSY, true },
};

KUNIT_ARRAY_PARAM_DESC(zc_insert, zc_insert_params, desc);

static void zc_queue_for_failures(struct kunit *test)
{
	zc_queue_frags(test, 3 * PAGE_SIZE + 1, 0, 0);
	zc_queue_frags(test, 4 * PAGE_SIZE, 2, EOM);
	zc_queue_linear(test, 5000, 0);
	zc_queue_linear(test, 5000, EOM | EOR);
	zc_queue_linear(test, 0, EOM);
	zc_queue_frags(test, 4 * PAGE_SIZE, 2, EOM);
}

/* On a stream nothing has flags. */
static void zc_clear_flags(struct zc_ctx *ctx)
{
	struct sk_buff *skb;

	skb_queue_walk(&ctx->queue, skb)
		zc_cb(skb)->flags = 0;
}

static void zc_insertion_fails(struct kunit *test)
{
	const struct zc_insert_param *p = test->param_value;
	struct zc_ctx *ctx = zc_connect(test, p->type);
	unsigned int room;

	kunit_activate_static_stub(test, vsock_zc_insert_pages, zc_insert_pages);
	for (room = 0; room <= 16; room++) {
		int err;

		zc_map(test, 20);
		zc_queue_for_failures(test);
		if (p->type == SOCK_STREAM)
			zc_clear_flags(ctx);
		ctx->insert_err = p->err;
		ctx->insert_once = p->once;
		ctx->insert_room = room;

		err = zc_call_range(test, 0, ctx->map_pages, UNMAPPED);
		if (err)
			zc_check_failed(test);
		else
			zc_check(test);
		if (p->once) {
			KUNIT_EXPECT_EQ(test, err, 0);
			KUNIT_EXPECT_EQ(test, ctx->res.queued, 0);
		} else if (room < 2) {
			KUNIT_EXPECT_EQ(test, err, p->err);
		}

		/* Nothing is lost: the rest is what comes next. */
		ctx->insert_room = ULONG_MAX;
		zc_receive_all(test);
		zc_check_references(test);
	}
}

/* A call that may fail, but not halfway. */
static void zc_receive_or_fail(struct kunit *test)
{
	if (zc_call_all(test))
		zc_check_queue(test);
	else
		zc_check(test);
}

/* Insertion fails far behind what was inserted at once. */
static void zc_insertion_fails_late(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 300);
	int i;

	for (i = 0; i < 10; i++)
		zc_queue_frags(test, 16 * PAGE_SIZE, i % 5, 0);
	kunit_activate_static_stub(test, vsock_zc_insert_pages, zc_insert_pages);
	ctx->insert_err = -ENOMEM;
	ctx->insert_room = 100;
	zc_receive_or_fail(test);
	KUNIT_EXPECT_LE(test, ctx->res.bytes, 99 * PAGE_SIZE);
	ctx->insert_room = ULONG_MAX;
	zc_receive_all(test);
	zc_check_references(test);
}

static void zc_no_memory_for_headers(struct kunit *test)
{
	zc_connect_and_map(test, SOCK_STREAM, 20);
	zc_queue_for_failures(test);
	zc_clear_flags(test->priv);
	kunit_activate_static_stub(test, vsock_zc_alloc_headers,
				   zc_alloc_headers);
	KUNIT_EXPECT_EQ(test, zc_call_all(test), -ENOMEM);
	zc_check_failed(test);

	kunit_deactivate_static_stub(test, vsock_zc_alloc_headers);
	zc_receive_all(test);
}

static void zc_no_memory_for_copies(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 20);

	zc_queue_linear(test, 5000, 0);
	zc_queue_frags(test, 8192, 1, 0);
	kunit_activate_static_stub(test, vsock_zc_alloc_gather, zc_alloc_gather);
	ctx->gather_room = 0;
	KUNIT_EXPECT_EQ(test, zc_call_all(test), -ENOMEM);
	zc_check_failed(test);

	ctx->gather_room = UINT_MAX;
	zc_receive_all(test);
	zc_check_references(test);
}

/* There is something before the bytes that no page is found for. */
static void zc_no_memory_for_copies_later(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 40);
	unsigned int room;

	kunit_activate_static_stub(test, vsock_zc_alloc_gather, zc_alloc_gather);
	for (room = 0; room < 3; room++) {
		zc_queue_frags(test, 8192, 1, 0);
		zc_queue_linear(test, 100, 0);
		zc_queue_frags(test, 8192, 1, 0);
		zc_queue_linear(test, 100, 0);
		ctx->gather_room = room;
		zc_receive_or_fail(test);
		ctx->gather_room = UINT_MAX;
		zc_receive_all(test);
	}
	zc_check_references(test);
}

/* A packet with less in it than its length says cannot be read. */
static void zc_packet_cannot_be_read(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 8);

	zc_queue_linear(test, 100, 0);
	skb_peek(&ctx->queue)->len += 100;
	skb_peek(&ctx->queue)->data_len += 100;
	KUNIT_EXPECT_EQ(test, zc_call_all(test), -EFAULT);
	zc_check_failed(test);
	skb_peek(&ctx->queue)->len -= 100;
	skb_peek(&ctx->queue)->data_len -= 100;
	zc_receive_all(test);
}

/* Addresses that are not there, by what is left of the argument before them. */
static const unsigned int zc_fault_left[] = { 0, 8, 24, 32, 40, 48, 56, 60 };

static void zc_fault_desc(const unsigned int *left, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "after %u bytes", *left);
}

KUNIT_ARRAY_PARAM(zc_fault, zc_fault_left, zc_fault_desc);

static void zc_argument_cannot_be_read(struct kunit *test)
{
	const unsigned int *left = test->param_value;
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 20);
	struct vm_sockets_zerocopy arg = {
		.address = ctx->map,
		.length = ctx->map_pages * PAGE_SIZE,
	};
	unsigned long addr = ctx->user + PAGE_SIZE - *left;
	int len;

	zc_queue_for_failures(test);
	zc_clear_flags(ctx);
	zc_snapshot(test);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)addr, &arg, *left), 0);
	KUNIT_ASSERT_EQ(test, vm_munmap(ctx->user + PAGE_SIZE, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, zc_getsockopt(ctx, addr, ctx->user, sizeof(arg),
					    &len), -EFAULT);
	zc_check_failed(test);
	zc_receive_all(test);
}

static void zc_result_cannot_be_written(struct kunit *test)
{
	const unsigned int *left = test->param_value;
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 20);
	struct vm_sockets_zerocopy arg = {
		.address = ctx->map,
		.length = ctx->map_pages * PAGE_SIZE,
	};
	unsigned long addr = ctx->user + PAGE_SIZE - *left;
	u64 behind = 0;
	int len;

	zc_queue_for_failures(test);
	zc_clear_flags(ctx);
	zc_snapshot(test);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)ctx->user, &arg,
					   sizeof(arg)), 0);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)ctx->user +
					   sizeof(arg), &behind,
					   sizeof(behind)), 0);
	KUNIT_ASSERT_EQ(test, vm_munmap(ctx->user + PAGE_SIZE, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, zc_getsockopt(ctx, ctx->user, addr, sizeof(arg) +
					    sizeof(behind), &len), -EFAULT);
	/* That of a result which was not told is not told either. */
	KUNIT_EXPECT_EQ(test, len, sizeof(arg) + sizeof(behind));
	zc_check_failed(test);
	zc_receive_all(test);
	zc_check_references(test);
}

static void zc_length_cannot_be_written(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 20);
	unsigned long addr = ctx->user + PAGE_SIZE;

	zc_queue_for_failures(test);
	zc_clear_flags(ctx);
	KUNIT_ASSERT_EQ(test, vm_munmap(addr, PAGE_SIZE), 0);
	ctx->optlen_ptr = USER_SOCKPTR((void __user *)addr);
	KUNIT_EXPECT_EQ(test, zc_call_all(test), -EFAULT);
	zc_check_failed(test);
	KUNIT_EXPECT_EQ(test, zc_call_short(test, ctx->map), -EFAULT);
	zc_check_failed(test);

	ctx->optlen_ptr = KERNEL_SOCKPTR(NULL);
	zc_receive_all(test);
	zc_check_references(test);
}

/* Whose a page is changes while the socket is locked: somebody has a reference
 * that goes, or comes, when pages for copies were allocated.
 */
static struct sk_buff *zc_alloc_gather_and_get(u32 len)
{
	struct zc_ctx *ctx = kunit_get_current_test()->priv;

	if (!ctx->held)
		get_page(ctx->hold);
	ctx->held = true;

	return zc_alloc_gather(len);
}

static struct sk_buff *zc_alloc_gather_and_put(u32 len)
{
	struct zc_ctx *ctx = kunit_get_current_test()->priv;

	if (ctx->held)
		put_page(ctx->hold);
	ctx->held = false;

	return zc_alloc_gather(len);
}

/* A packet of @len bytes, copies or not, and a packet whose owner changes. */
static void zc_queue_to_change_hands(struct kunit *test, u32 len)
{
	struct zc_ctx *ctx = test->priv;
	struct sk_buff *skb;

	if (len)
		zc_queue_linear(test, len, 0);
	skb = zc_folio(test, 4, 0, 16 * PAGE_SIZE);
	ctx->hold = skb_frag_page(&skb_shinfo(skb)->frags[0]);
	zc_queue(test, skb, 0);
	zc_queue_linear(test, 100, 0);
}

static const u32 zc_hands_lens[] = { 0, 1, 4095, 4096, 5000, 65536 };

KUNIT_ARRAY_PARAM(zc_hands, zc_hands_lens, zc_len_desc);

static void zc_second_user_goes(struct kunit *test)
{
	const u32 *len = test->param_value;
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 40);

	kunit_activate_static_stub(test, vsock_zc_alloc_gather,
				   zc_alloc_gather_and_put);
	zc_queue_to_change_hands(test, *len);
	get_page(ctx->hold);
	ctx->held = true;
	KUNIT_EXPECT_EQ(test, zc_call_all(test), 0);
	if (ctx->held)
		put_page(ctx->hold);
	zc_check(test);
	zc_receive_all(test);
	zc_check_references(test);
}

static void zc_second_user_comes(struct kunit *test)
{
	const u32 *len = test->param_value;
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 40);

	kunit_activate_static_stub(test, vsock_zc_alloc_gather,
				   zc_alloc_gather_and_get);
	zc_queue_to_change_hands(test, *len);
	KUNIT_EXPECT_EQ(test, zc_call_all(test), 0);
	if (ctx->held)
		put_page(ctx->hold);
	zc_check(test);
	zc_receive_all(test);
	zc_check_references(test);
}

/* What the range held before goes, whatever comes. */
static void zc_old_pages_go(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 20);

	zc_queue_frags(test, 65536, 4, 0);
	zc_receive(test);
	zc_queue_frags(test, 100, 0, 0);
	zc_receive(test);
	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.headers, 0);
}

/* The process says that the range is empty, and that is not so. */
static void zc_not_unmapped(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 20);
	int i;

	for (i = 0; i < 5; i++) {
		zc_queue_frags(test, 65536, i, 0);
		zc_queue_linear(test, 100, 0);
		KUNIT_ASSERT_EQ(test, zc_call_range(test, 0, ctx->map_pages,
						    UNMAPPED), 0);
		zc_check(test);
		KUNIT_EXPECT_EQ(test, ctx->res.queued, 0);
	}
	zc_check_references(test);
}

/* Only a part of the range holds pages: those of a call before on that part. */
static void zc_partly_unmapped(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 60);
	unsigned int first;

	for (first = 1; first < 40; first += 3) {
		zc_queue_frags(test, 65536, 4, 0);
		KUNIT_ASSERT_EQ(test, zc_call_range(test, first, 20, 0), 0);
		zc_check(test);

		zc_queue_frags(test, 65536, 2, 0);
		zc_queue_linear(test, 9000, 0);
		zc_queue_frags(test, 65536, 4, 0);
		KUNIT_ASSERT_EQ(test, zc_call_range(test, 0, ctx->map_pages,
						    UNMAPPED), 0);
		zc_check(test);
		KUNIT_EXPECT_EQ(test, ctx->res.queued, 0);
		zc_receive(test);
	}
}

static void zc_unmapped_and_true(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 20);

	zc_queue_frags(test, 65536, 4, 0);
	KUNIT_ASSERT_EQ(test, zc_call_range(test, 0, ctx->map_pages, UNMAPPED),
			0);
	zc_check(test);
	KUNIT_EXPECT_EQ(test, ctx->res.bytes, 65536);
	KUNIT_EXPECT_EQ(test, ctx->res.copied, 0);
}

/* Ranges in the middle of a mapping; the rest of it is not touched. */
static void zc_ranges_of_a_mapping(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 40);
	struct page *before, *behind;
	unsigned int first;

	zc_queue_frags(test, 3 * PAGE_SIZE, 0, 0);
	KUNIT_ASSERT_EQ(test, zc_call_range(test, 0, 4, 0), 0);
	zc_check(test);
	before = zc_page(ctx->map + 3 * PAGE_SIZE);
	zc_queue_frags(test, PAGE_SIZE, 0, 0);
	KUNIT_ASSERT_EQ(test, zc_call_range(test, ctx->map_pages - 2, 2, 0), 0);
	zc_check(test);
	behind = zc_page(ctx->map + (ctx->map_pages - 2) * PAGE_SIZE);
	KUNIT_ASSERT_NOT_NULL(test, before);
	KUNIT_ASSERT_NOT_NULL(test, behind);

	for (first = 4; first < 20; first += 3) {
		zc_queue_frags(test, 65536, 4, 0);
		KUNIT_ASSERT_EQ(test, zc_call_range(test, first, 17, 0), 0);
		zc_check(test);
	}
	KUNIT_EXPECT_PTR_EQ(test, zc_page(ctx->map + 3 * PAGE_SIZE), before);
	KUNIT_EXPECT_PTR_EQ(test, zc_page(ctx->map + (ctx->map_pages - 2) *
					  PAGE_SIZE), behind);
	zc_check_references(test);
}

/* The packet's pages live on in the mapping, and then they do not. */
static void zc_references(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect(test, SOCK_STREAM);
	int order;

	for (order = 0; order <= MAX_FOLIO; order++) {
		struct folio *folio;
		struct sk_buff *skb;
		u32 i, nr = 0;

		zc_map(test, 20);
		zc_queue_frags(test, (PAGE_SIZE << order) - 1, order, 0);
		skb = skb_peek(&ctx->queue);
		folio = page_folio(skb_frag_page(&skb_shinfo(skb)->frags[0]));
		KUNIT_EXPECT_EQ(test, folio_ref_count(folio), 1);
		zc_receive(test);

		for (i = 1; i < ctx->map_pages; i++) {
			unsigned long addr = ctx->map + i * PAGE_SIZE;
			struct page *page = zc_page(addr);

			nr += page && page_folio(page) == folio;
		}
		/* The packet is freed; each mapped page holds the folio. */
		KUNIT_EXPECT_EQ(test, nr, 1 << order);
		KUNIT_EXPECT_EQ(test, folio_ref_count(folio), nr);
		KUNIT_EXPECT_EQ(test, folio_mapcount(folio), nr);
		zc_check_references(test);
	}
}

/* No page of headers is kept for ever. */
static void zc_references_to_headers(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 20);
	struct page *pages[3];
	int i;

	for (i = 0; i < 3; i++) {
		zc_queue_linear(test, 10, 0);
		KUNIT_ASSERT_EQ(test, zc_call_range(test, 4 * i, 4, 0), 0);
		zc_check(test);
		pages[i] = zc_get_page(ctx->map + 4 * i * PAGE_SIZE);
		KUNIT_ASSERT_NOT_NULL(test, pages[i]);
	}

	/* The last user of the socket goes. */
	vm_munmap(ctx->map, ctx->map_pages * PAGE_SIZE);
	zc_disconnect(ctx);
	ctx->sock = NULL;
	fput(ctx->file);
	flush_delayed_fput();
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ_MSG(test, page_ref_count(pages[i]), 1,
				    "headers of call %d", i);
		put_page(pages[i]);
	}
}

/* A page of headers that somebody still looks at is not written to. */
static void zc_headers_are_not_changed(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 20);
	struct virtio_vsock_usr_hdr *hdrs;
	struct page *page;

	zc_queue_linear(test, 10, 0);
	zc_receive(test);
	page = zc_get_page(ctx->map);
	KUNIT_ASSERT_NOT_NULL(test, page);
	zc_queue_frags(test, 8192, 1, 0);
	zc_queue_linear(test, 20, 0);
	zc_receive(test);

	hdrs = page_address(page);
	KUNIT_EXPECT_EQ(test, hdrs[0].flags, COPIED);
	KUNIT_EXPECT_EQ(test, hdrs[0].len, 10);
	KUNIT_EXPECT_EQ(test, hdrs[1].len, 0);
	KUNIT_EXPECT_PTR_NE(test, zc_page(ctx->map), page);
	put_page(page);
}

/* Pages stay mapped when the connection is gone. */
static void zc_pages_outlive_the_connection(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 20);

	zc_queue_frags(test, 65536, 4, 0);
	zc_receive(test);
	zc_disconnect(ctx);
	ctx->received = 0;
	ctx->start = ctx->map;
	zc_check_page(test, ctx->map + PAGE_SIZE, PAGE_SIZE);
	ctx->vsk->trans = ctx;
	ctx->vsk->transport = &zc_transport;
	zc_check_references(test);
}

static void zc_short_form(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 20);
	u64 addr;

	zc_queue_frags(test, 65536, 4, 0);
	zc_queue_frags(test, 4 * PAGE_SIZE, 1, 0);
	zc_queue_linear(test, 100, 0);
	KUNIT_ASSERT_EQ(test, zc_call_short(test, ctx->map), 0);

	/* The headers say it all. */
	KUNIT_ASSERT_EQ(test, copy_from_user(&addr, (void __user *)ctx->user,
					     sizeof(addr)), 0);
	KUNIT_EXPECT_EQ(test, addr, ctx->map);
	ctx->start = ctx->map;
	ctx->nr = ctx->map_pages;
	ctx->res = (struct vm_sockets_zerocopy) {
		.headers = 2,
		.bytes = 20 * PAGE_SIZE,
		.queued = 100,
		.status = MORE,
	};
	zc_check(test);
	KUNIT_EXPECT_EQ(test, ctx->received, 20 * PAGE_SIZE);
}

static void zc_short_form_not_the_start(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 20);

	zc_queue_frags(test, 4096, 0, 0);
	KUNIT_EXPECT_EQ(test, zc_call_short(test, ctx->map + PAGE_SIZE),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, zc_call_short(test, ctx->map + 8), -EINVAL);
	KUNIT_EXPECT_EQ(test, zc_call_short(test, ctx->user), -EINVAL);
	zc_check_failed(test);
}

static void zc_short_form_one_page(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 0);

	zc_queue_frags(test, 4096, 0, 0);
	KUNIT_EXPECT_EQ(test, zc_call_short(test, ctx->map), -EINVAL);
	zc_check_failed(test);
}

/* The argument in user memory, and around it what must stay. */
static void zc_put_argument(struct kunit *test, const void *arg, size_t len)
{
	struct zc_ctx *ctx = test->priv;

	memset(ctx->buf, POISON, PAGE_SIZE);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)ctx->user, ctx->buf,
					   PAGE_SIZE), 0);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)ctx->user, arg, len),
			0);
}

static void zc_every_length(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 20);
	u8 zeroes[128] = {};
	int optlen, len;

	for (optlen = 0; optlen <= 72; optlen++) {
		const struct vm_sockets_zerocopy arg = {
			.address = ctx->map,
			.length = ctx->map_pages * PAGE_SIZE,
		};
		bool good = optlen == 8 || optlen >= 16;
		struct vm_sockets_zerocopy out;
		int err, known = min(optlen, 64);

		memcpy(zeroes, &arg, sizeof(arg));
		zc_queue_linear(test, 100, 0);
		zc_queue_frags(test, 8192, 1, 0);
		zc_snapshot(test);
		zc_put_argument(test, zeroes, optlen);
		err = zc_getsockopt(ctx, ctx->user, ctx->user, optlen, &len);
		KUNIT_ASSERT_EQ_MSG(test, err, good ? 0 : -EINVAL, "length %d",
				    optlen);
		KUNIT_ASSERT_EQ(test, copy_from_user(ctx->buf,
						     (void __user *)ctx->user,
						     PAGE_SIZE), 0);
		KUNIT_EXPECT_NULL_MSG(test, memchr_inv(ctx->buf + optlen, POISON,
						       PAGE_SIZE - optlen),
				      "length %d: written beyond it", optlen);
		if (!good) {
			zc_check_queue(test);
			KUNIT_EXPECT_EQ(test, memcmp(ctx->buf, zeroes, optlen), 0);
			zc_receive(test);
			continue;
		}

		KUNIT_EXPECT_EQ_MSG(test, len, known, "length %d", optlen);
		memset(&out, 0, sizeof(out));
		memcpy(&out, ctx->buf, known);
		KUNIT_EXPECT_EQ(test, memcmp(&out, &arg, min(known, 24)), 0);
		/* Each field is there, or it is not. */
		if (optlen >= offsetofend(struct vm_sockets_zerocopy, bytes))
			KUNIT_EXPECT_EQ(test, out.bytes, 8292);
		if (optlen >= offsetofend(struct vm_sockets_zerocopy, copied))
			KUNIT_EXPECT_EQ(test, out.copied, 100);
		if (optlen >= offsetofend(struct vm_sockets_zerocopy, headers))
			KUNIT_EXPECT_EQ(test, out.headers, 2);

		ctx->start = ctx->map;
		ctx->nr = ctx->map_pages;
		ctx->res = (struct vm_sockets_zerocopy) {
			.headers = 2, .bytes = 8292, .copied = 100,
		};
		zc_check(test);
	}
}

static void zc_longer_argument(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 20);
	struct vm_sockets_zerocopy arg = {
		.address = ctx->map,
		.length = ctx->map_pages * PAGE_SIZE,
	};
	u8 *bytes = kunit_kzalloc(test, 256, GFP_KERNEL);
	int i, len;

	KUNIT_ASSERT_NOT_NULL(test, bytes);
	memcpy(bytes, &arg, sizeof(arg));
	zc_queue_frags(test, 4096, 0, 0);

	zc_snapshot(test);
	for (i = sizeof(arg); i < 256; i++) {
		bytes[i] = 1;
		zc_put_argument(test, bytes, 256);
		KUNIT_EXPECT_EQ_MSG(test, zc_getsockopt(ctx, ctx->user, ctx->user,
							256, &len), -E2BIG,
				    "byte %d", i);
		bytes[i] = 0;
	}
	zc_check_failed(test);

	zc_put_argument(test, bytes, 256);
	KUNIT_EXPECT_EQ(test, zc_getsockopt(ctx, ctx->user, ctx->user, 256,
					    &len), 0);
	KUNIT_EXPECT_EQ(test, len, sizeof(arg));
	KUNIT_EXPECT_TRUE(test, skb_queue_empty(&ctx->queue));
	/* What is not known here is not written. */
	KUNIT_ASSERT_EQ(test, copy_from_user(ctx->buf, (void __user *)ctx->user,
					     PAGE_SIZE), 0);
	KUNIT_EXPECT_NULL(test, memchr_inv(ctx->buf + sizeof(arg), 0,
					   256 - sizeof(arg)));
}

/* Arguments that are not valid; addresses and lengths in pages. */
enum zc_place {
	ZC_MAPPING,
	ZC_HOLE,
	ZC_ANONYMOUS,
	ZC_OTHER_SOCKET,
	ZC_ABSOLUTE,
};

struct zc_invalid_param {
	const char *desc;
	enum zc_place place;
	u64 offset;
	u64 length;
	u32 flags;
	u32 reserved;
	u32 reserved2;
};

static const struct zc_invalid_param zc_invalid_params[] = {
	{ "address is not aligned", .offset = 8, .length = 4 * PAGE_SIZE },
	{ "address in the last page of it", .offset = 8 * PAGE_SIZE,
	  .length = 2 * PAGE_SIZE },
	{ "address behind it", .offset = 9 * PAGE_SIZE, .length = 2 * PAGE_SIZE },
	{ "length 0", .length = 0 },
	{ "length is not aligned", .length = 4 * PAGE_SIZE + 8 },
	{ "length below a page", .length = 100 },
	{ "one page", .length = PAGE_SIZE },
	{ "one page too long", .length = 10 * PAGE_SIZE },
	{ "end wraps", .length = -PAGE_SIZE },
	{ "end wraps to the start", .offset = PAGE_SIZE,
	  .length = -2 * PAGE_SIZE },
	{ "longest", .length = U64_MAX & PAGE_MASK },
	{ "length of 4 GiB and a bit", .length = (4ULL << 30) + 2 * PAGE_SIZE },
	{ "unknown flag", .length = 4 * PAGE_SIZE, .flags = 2 },
	{ "unknown and known flags", .length = 4 * PAGE_SIZE, .flags = 3 },
	{ "last flag", .length = 4 * PAGE_SIZE, .flags = 1U << 31 },
	{ "reserved", .length = 4 * PAGE_SIZE, .reserved = 1 },
	{ "reserved2", .length = 4 * PAGE_SIZE, .reserved2 = 1 },
	{ "nothing mapped there", ZC_HOLE, .length = 2 * PAGE_SIZE },
	{ "anonymous memory", ZC_ANONYMOUS, .length = 2 * PAGE_SIZE },
	{ "another socket", ZC_OTHER_SOCKET, .length = 2 * PAGE_SIZE },
	{ "address 0", ZC_ABSOLUTE, .offset = 0, .length = 2 * PAGE_SIZE },
	{ "highest page", ZC_ABSOLUTE, .offset = U64_MAX & PAGE_MASK,
	  .length = 2 * PAGE_SIZE },
};

KUNIT_ARRAY_PARAM_DESC(zc_invalid, zc_invalid_params, desc);

static void zc_invalid_argument(struct kunit *test)
{
	const struct zc_invalid_param *p = test->param_value;
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 8);
	struct vm_sockets_zerocopy arg = {
		.address = p->offset,
		.length = p->length,
		.flags = p->flags,
		.reserved = p->reserved,
		.reserved2 = p->reserved2,
	};
	struct socket *other;
	struct file *file;

	switch (p->place) {
	case ZC_MAPPING:
		arg.address += ctx->map;
		break;
	case ZC_HOLE:
		arg.address += zc_mmap_socket(test, ctx->file, 2);
		KUNIT_ASSERT_EQ(test, vm_munmap(arg.address, 2 * PAGE_SIZE), 0);
		break;
	case ZC_ANONYMOUS:
		arg.address += zc_user_memory(test, 2);
		break;
	case ZC_OTHER_SOCKET:
		KUNIT_ASSERT_EQ(test, sock_create_kern(&init_net, AF_VSOCK,
						       SOCK_STREAM, 0, &other),
				0);
		file = sock_alloc_file(other, 0, NULL);
		KUNIT_ASSERT_FALSE(test, IS_ERR(file));
		KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, zc_fput,
								file), 0);
		arg.address += zc_mmap_socket(test, file, 2);
		break;
	case ZC_ABSOLUTE:
		break;
	}

	zc_queue_frags(test, 4096, 0, 0);
	KUNIT_EXPECT_EQ(test, zc_call(test, &arg), -EINVAL);
	zc_check_failed(test);
	zc_receive_all(test);
}

/* States in which nothing can be received. */
static void zc_not_opted_in(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 8);

	zc_queue_frags(test, 4096, 0, 0);
	ctx->vsk->rx_zerocopy = false;
	KUNIT_EXPECT_EQ(test, zc_call_all(test), -EACCES);
	zc_check_failed(test);
}

static void zc_not_connected(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 8);
	static const int states[] = { TCP_CLOSE, TCP_LISTEN, TCP_SYN_SENT };
	int i;

	zc_queue_frags(test, 4096, 0, 0);
	for (i = 0; i < ARRAY_SIZE(states); i++) {
		sk_vsock(ctx->vsk)->sk_state = states[i];
		KUNIT_EXPECT_EQ(test, zc_call_all(test), -ENOTCONN);
		zc_check_failed(test);
	}
}

/* A BPF program could fail the call when the data has been taken. */
static void zc_no_program_in_between(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 8);
	const struct proto *prot = sk_vsock(ctx->vsk)->sk_prot;

	KUNIT_ASSERT_NOT_NULL(test, prot->bpf_bypass_getsockopt);
	KUNIT_EXPECT_TRUE(test, prot->bpf_bypass_getsockopt(AF_VSOCK,
							    SO_VM_SOCKETS_ZEROCOPY));
	KUNIT_EXPECT_FALSE(test, prot->bpf_bypass_getsockopt(AF_VSOCK,
							     SO_VM_SOCKETS_BUFFER_SIZE));
	KUNIT_EXPECT_FALSE(test, prot->bpf_bypass_getsockopt(SOL_SOCKET,
							     SO_VM_SOCKETS_ZEROCOPY));
}

static void zc_never_connected(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 8);
	struct vm_sockets_zerocopy arg = {
		.address = ctx->map,
		.length = ctx->map_pages * PAGE_SIZE,
	};
	int len;

	zc_disconnect(ctx);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)ctx->user, &arg,
					   sizeof(arg)), 0);
	KUNIT_EXPECT_EQ(test, zc_getsockopt(ctx, ctx->user, ctx->user,
					    sizeof(arg), &len), -ENOTCONN);
	KUNIT_EXPECT_NULL(test, zc_page(ctx->map));
}

static void zc_transport_cannot(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 8);

	zc_queue_frags(test, 4096, 0, 0);
	ctx->vsk->transport = &zc_transport_without;
	KUNIT_EXPECT_EQ(test, zc_call_all(test), -EOPNOTSUPP);
	zc_check_failed(test);
}

#ifdef CONFIG_BPF_SYSCALL
static void zc_in_a_sockmap(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 8);
	struct sock *sk = sk_vsock(ctx->vsk);
	struct sk_psock *psock;
	int err;

	zc_queue_frags(test, 4096, 0, 0);
	psock = sk_psock_init(sk, NUMA_NO_NODE);
	KUNIT_ASSERT_FALSE(test, IS_ERR(psock));
	psock->psock_update_sk_prot = sk->sk_prot->psock_update_sk_prot;
	err = psock->psock_update_sk_prot(sk, psock, false);
	KUNIT_EXPECT_EQ(test, err, 0);
	if (!err)
		KUNIT_EXPECT_EQ(test, zc_call_all(test), -EOPNOTSUPP);
	sk_psock_put(sk, psock);
	if (!err)
		zc_check_failed(test);
}
#endif

static int zc_setsockopt(struct zc_ctx *ctx, int val, int len)
{
	const struct proto_ops *ops = READ_ONCE(ctx->sock->ops);

	return ops->setsockopt(ctx->sock, AF_VSOCK, SO_VM_SOCKETS_ZEROCOPY,
			       KERNEL_SOCKPTR(&val), len);
}

/* Nobody opts in here: that changes how packets arrive until the next boot. */
static void zc_opt_in_values(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect(test, SOCK_STREAM);

	KUNIT_EXPECT_EQ(test, zc_setsockopt(ctx, 2, sizeof(int)), -EINVAL);
	KUNIT_EXPECT_EQ(test, zc_setsockopt(ctx, -1, sizeof(int)), -EINVAL);
	KUNIT_EXPECT_EQ(test, zc_setsockopt(ctx, 0, sizeof(int) - 1), -EINVAL);
	KUNIT_EXPECT_TRUE(test, ctx->vsk->rx_zerocopy);
	KUNIT_EXPECT_EQ(test, zc_setsockopt(ctx, 0, sizeof(int)), 0);
	KUNIT_EXPECT_FALSE(test, ctx->vsk->rx_zerocopy);

	ctx->vsk->transport = &zc_transport_without;
	KUNIT_EXPECT_EQ(test, zc_setsockopt(ctx, 1, sizeof(int)), -EOPNOTSUPP);
	KUNIT_EXPECT_FALSE(test, ctx->vsk->rx_zerocopy);
}

static void zc_opt_in_is_inherited(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect(test, SOCK_STREAM);
	struct sock *child;

	child = vsock_create_connected(sk_vsock(ctx->vsk));
	KUNIT_ASSERT_NOT_NULL(test, child);
	KUNIT_EXPECT_TRUE(test, vsock_sk(child)->rx_zerocopy);
	sock_put(child);
}

/* Data behind the end of the connection, and the end. */
struct zc_end_param {
	const char *desc;
	int peer_shutdown;
	int sk_err;
	bool finished;
};

static const struct zc_end_param zc_end_params[] = {
	{ "connection goes on", 0, 0, false },
	{ "peer receives no more", RCV_SHUTDOWN, 0, false },
	{ "peer sends no more", SEND_SHUTDOWN, 0, true },
	{ "peer is gone", SHUTDOWN_MASK, 0, true },
	{ "error", 0, ECONNRESET, true },
};

KUNIT_ARRAY_PARAM_DESC(zc_end, zc_end_params, desc);

static void zc_end(struct kunit *test)
{
	const struct zc_end_param *p = test->param_value;
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 1);
	u32 finished = p->finished ? FINISHED : 0;

	ctx->vsk->peer_shutdown = p->peer_shutdown;
	sk_vsock(ctx->vsk)->sk_err = p->sk_err;
	zc_queue_frags(test, 8192, 0, 0);
	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.bytes, 4096);
	KUNIT_EXPECT_EQ(test, ctx->res.queued, 4096);
	KUNIT_EXPECT_EQ(test, ctx->res.status, MORE);
	KUNIT_EXPECT_EQ(test, ctx->res.error, p->sk_err);

	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.bytes, 4096);
	KUNIT_EXPECT_EQ(test, ctx->res.queued, 0);
	KUNIT_EXPECT_EQ(test, ctx->res.status, finished);

	zc_receive(test);
	KUNIT_EXPECT_EQ(test, ctx->res.bytes, 0);
	KUNIT_EXPECT_EQ(test, ctx->res.status, finished);
	/* It is told, not taken. */
	KUNIT_EXPECT_EQ(test, ctx->res.error, p->sk_err);
	KUNIT_EXPECT_EQ(test, sk_vsock(ctx->vsk)->sk_err, p->sk_err);
}

/* What is queued counts no more, as for recv(). */
static void zc_local_shutdown(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 8);

	zc_queue_frags(test, 4096, 0, 0);
	sk_vsock(ctx->vsk)->sk_shutdown = RCV_SHUTDOWN;
	KUNIT_ASSERT_EQ(test, zc_call_all(test), 0);
	KUNIT_EXPECT_EQ(test, ctx->res.headers, 0);
	KUNIT_EXPECT_EQ(test, ctx->res.bytes, 0);
	KUNIT_EXPECT_EQ(test, ctx->res.status, FINISHED);
	KUNIT_EXPECT_EQ(test, ctx->takes, 0);
}

static void zc_connection_done(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 8);
	u64 addr = ctx->map;

	sock_set_flag(sk_vsock(ctx->vsk), SOCK_DONE);
	sk_vsock(ctx->vsk)->sk_state = TCP_CLOSING;
	KUNIT_ASSERT_EQ(test, zc_call_all(test), 0);
	KUNIT_EXPECT_EQ(test, ctx->res.headers, 0);
	KUNIT_EXPECT_EQ(test, ctx->res.status, FINISHED);
	KUNIT_EXPECT_EQ(test, zc_call_short(test, addr), 0);
	zc_check(test);
}

static void zc_transport_gone(struct kunit *test)
{
	struct zc_ctx *ctx = zc_connect_and_map(test, SOCK_STREAM, 8);
	struct vm_sockets_zerocopy arg = {
		.address = ctx->map,
		.length = ctx->map_pages * PAGE_SIZE,
	};
	int len;

	sock_set_flag(sk_vsock(ctx->vsk), SOCK_DONE);
	zc_disconnect(ctx);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)ctx->user, &arg,
					   sizeof(arg)), 0);
	KUNIT_EXPECT_EQ(test, zc_getsockopt(ctx, ctx->user, ctx->user,
					    sizeof(arg), &len), 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(&arg, (void __user *)ctx->user,
					     sizeof(arg)), 0);
	KUNIT_EXPECT_EQ(test, arg.headers, 0);
	KUNIT_EXPECT_EQ(test, arg.queued, 0);
	KUNIT_EXPECT_EQ(test, arg.status, FINISHED);
}

/* The mapping is to read from, and that is how it stays. */
struct zc_mmap_param {
	const char *desc;
	unsigned long prot;
	unsigned long flags;
	long err;
};

static const struct zc_mmap_param zc_mmap_params[] = {
	{ "shared, read", PROT_READ, MAP_SHARED, 0 },
	{ "shared, write", PROT_READ | PROT_WRITE, MAP_SHARED, -EPERM },
	{ "shared, write only", PROT_WRITE, MAP_SHARED, -EPERM },
	{ "shared, exec", PROT_READ | PROT_EXEC, MAP_SHARED, -EPERM },
	{ "private, read", PROT_READ, MAP_PRIVATE, 0 },
	{ "private, write", PROT_READ | PROT_WRITE, MAP_PRIVATE, -EPERM },
	{ "private, exec", PROT_READ | PROT_EXEC, MAP_PRIVATE, -EPERM },
};

KUNIT_ARRAY_PARAM_DESC(zc_mmap, zc_mmap_params, desc);

static void zc_mmap(struct kunit *test)
{
	const struct zc_mmap_param *p = test->param_value;
	struct zc_ctx *ctx = zc_connect(test, SOCK_STREAM);
	struct vm_area_struct *vma;
	vm_flags_t flags = 0;
	unsigned long addr;
	u8 byte = POISON;

	addr = kunit_vm_mmap(test, ctx->file, 0, 2 * PAGE_SIZE, p->prot,
			     p->flags, 0);
	if (p->err) {
		KUNIT_EXPECT_EQ(test, (long)addr, p->err);
		return;
	}

	KUNIT_ASSERT_NE(test, addr, 0);
	KUNIT_ASSERT_LT(test, addr, TASK_SIZE);
	mmap_read_lock(current->mm);
	vma = find_vma(current->mm, addr);
	if (vma)
		flags = vma->vm_flags;
	mmap_read_unlock(current->mm);
	KUNIT_EXPECT_TRUE(test, flags & VM_READ);
	KUNIT_EXPECT_FALSE(test, flags & (VM_WRITE | VM_MAYWRITE));
	KUNIT_EXPECT_FALSE(test, flags & (VM_EXEC | VM_MAYEXEC));
	KUNIT_EXPECT_TRUE(test, flags & VM_DONTCOPY);
	KUNIT_EXPECT_TRUE(test, flags & VM_DONTEXPAND);

	/* A debugger writes to what is not writable. Not here. */
	ctx->map = addr;
	ctx->map_pages = 2;
	ctx->user = zc_user_memory(test, 2);
	zc_queue_frags(test, 4096, 0, 0);
	zc_receive(test);
	KUNIT_EXPECT_EQ(test, access_process_vm(current, addr + PAGE_SIZE, &byte,
						1, FOLL_WRITE | FOLL_FORCE), 0);
	ctx->received = 0;
	zc_check_page(test, addr + PAGE_SIZE, PAGE_SIZE);
}

/* Random packets, ranges and failures; everything arrives once, in order. */
static void zc_random_packet(struct kunit *test, struct rnd_state *rnd,
			     bool seqpacket)
{
	u32 len = prandom_u32_state(rnd) % 70000, order = prandom_u32_state(rnd) % 5;
	u32 flags = 0;
	struct sk_buff *skb;

	if (seqpacket && prandom_u32_state(rnd) % 3 == 0)
		flags = prandom_u32_state(rnd) % 2 ? EOM : EOM | EOR;

	switch (prandom_u32_state(rnd) % 9) {
	case 0:
		zc_queue_linear(test, len % 300, flags);
		return;
	case 1:
		zc_queue_linear(test, len % 10000, flags);
		return;
	case 2:
		zc_queue_linear(test, 0, flags);
		return;
	case 3:
		skb = zc_folio(test, order, 0, 1 + len % (PAGE_SIZE << order));
		break;
	case 4:
		skb = zc_head_and_frags(test);
		break;
	case 5:
		skb = zc_off_by_bytes(test);
		break;
	case 6:
		skb = zc_frags(test, round_up(1 + len % 65536, PAGE_SIZE), order);
		break;
	case 7:
		/* Fragments that do not end with a page. */
		skb = zc_folio(test, order, 0, 1 + len % (PAGE_SIZE << order));
		zc_add_frag(skb, zc_pages(test, 1), 0, 2 * PAGE_SIZE - len % 99);
		zc_add_frag(skb, zc_pages(test, 0), 0, PAGE_SIZE);
		break;
	default:
		skb = zc_frags(test, 1 + len % 65536, order);
		break;
	}
	zc_queue(test, skb, flags);
}

struct zc_random_param {
	u64 seed;
	int type;
	unsigned int pages;
};

static const struct zc_random_param zc_random_params[] = {
	{ 1, SOCK_STREAM, 1 },
	{ 2, SOCK_STREAM, 8 },
	{ 3, SOCK_STREAM, 50 },
	{ 4, SOCK_STREAM, 300 },
	{ 5, SOCK_SEQPACKET, 1 },
	{ 6, SOCK_SEQPACKET, 8 },
	{ 7, SOCK_SEQPACKET, 50 },
	{ 8, SOCK_SEQPACKET, 300 },
};

static void zc_random_desc(const struct zc_random_param *p, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "seed %llu, %s, %u pages", p->seed,
		 p->type == SOCK_STREAM ? "stream" : "seqpacket", p->pages);
}

KUNIT_ARRAY_PARAM(zc_random, zc_random_params, zc_random_desc);

static void zc_random(struct kunit *test)
{
	const struct zc_random_param *p = test->param_value;
	bool seqpacket = p->type == SOCK_SEQPACKET;
	struct zc_ctx *ctx = zc_connect_and_map(test, p->type, p->pages);
	struct rnd_state rnd;
	int round;

	prandom_seed_state(&rnd, p->seed);
	kunit_activate_static_stub(test, vsock_zc_insert_pages, zc_insert_pages);
	kunit_activate_static_stub(test, vsock_zc_alloc_gather, zc_alloc_gather);

	for (round = 0; round < 150; round++) {
		unsigned int pages, first, i;
		struct sk_buff *skb;
		int err;

		for (i = prandom_u32_state(&rnd) % 4; i &&
		     skb_queue_len(&ctx->queue) < 20; i--)
			zc_random_packet(test, &rnd, seqpacket);

		/* recv() takes a part of a packet now and then. */
		skb = skb_peek(&ctx->queue);
		if (skb && !seqpacket && prandom_u32_state(&rnd) % 4 == 0) {
			u32 left = skb->len - zc_cb(skb)->offset;

			if (left > 1)
				zc_skip(ctx, prandom_u32_state(&rnd) % left);
		}

		pages = 2 + prandom_u32_state(&rnd) % (ctx->map_pages - 1);
		first = prandom_u32_state(&rnd) % (ctx->map_pages - pages + 1);
		ctx->insert_room = ULONG_MAX;
		ctx->gather_room = UINT_MAX;
		switch (prandom_u32_state(&rnd) % 8) {
		case 0:
			ctx->insert_room = prandom_u32_state(&rnd) % 40;
			ctx->insert_err = -ENOMEM;
			ctx->insert_once = false;
			break;
		case 1:
			ctx->insert_room = prandom_u32_state(&rnd) % 40;
			ctx->insert_err = -EBUSY;
			ctx->insert_once = true;
			break;
		case 2:
			ctx->gather_room = prandom_u32_state(&rnd) % 3;
			break;
		}

		err = zc_call_range(test, first, pages, prandom_u32_state(&rnd) % 2);
		if (!err) {
			zc_check(test);
		} else {
			KUNIT_ASSERT_TRUE(test, err == -ENOMEM || err == -EBUSY);
			zc_check_queue(test);
		}
	}

	ctx->insert_room = ULONG_MAX;
	ctx->gather_room = UINT_MAX;
	if (seqpacket)
		zc_queue_linear(test, 1, EOM);
	zc_receive_all(test);
	zc_check_references(test);
}

static struct kunit_case zc_cases[] = {
	KUNIT_CASE(zc_worked_example),
	KUNIT_CASE(zc_worked_example_copied),
	KUNIT_CASE(zc_large_packets_share_nothing),
	KUNIT_CASE(zc_empty_queue),
	KUNIT_CASE_PARAM(zc_single_packet, zc_len_gen_params),
	KUNIT_CASE(zc_linear_packets_share_pages),
	KUNIT_CASE(zc_linear_packet_of_pages),
	KUNIT_CASE(zc_linear_packets_fill_the_mapping),
	KUNIT_CASE(zc_mapped_and_copied_in_turn),
	KUNIT_CASE_PARAM(zc_foreign_pages, zc_foreign_gen_params),
	KUNIT_CASE_PARAM(zc_share_of_a_folio, zc_share_gen_params),
	KUNIT_CASE(zc_room_for_a_small_share),
	KUNIT_CASE_PARAM(zc_partly_read, zc_offset_gen_params),
	KUNIT_CASE_PARAM(zc_partly_read_linear, zc_offset_gen_params),
	KUNIT_CASE(zc_partly_read_in_pieces),
	KUNIT_CASE_PARAM(zc_room, zc_room_gen_params),
	KUNIT_CASE_PARAM(zc_room_odd_packets, zc_room_gen_params),
	KUNIT_CASE(zc_many_pages),
	KUNIT_CASE(zc_many_odd_packets),
	KUNIT_CASE(zc_across_page_tables),
	KUNIT_CASE(zc_many_single_pages),
	KUNIT_CASE(zc_600_empty_messages),
	KUNIT_CASE(zc_headers_end_in_a_message),
	KUNIT_CASE(zc_empty_messages_between_data),
	KUNIT_CASE(zc_empty_packets_on_a_stream),
	KUNIT_CASE(zc_nothing_but_empty_packets),
	KUNIT_CASE(zc_message_of_packets),
	KUNIT_CASE(zc_copies_end_with_a_message),
	KUNIT_CASE_PARAM(zc_message_split_by_room, zc_room_gen_params),
	KUNIT_CASE(zc_long_messages),
	KUNIT_CASE(zc_message_ended_by_an_empty_packet),
	KUNIT_CASE(zc_message_ended_without_room),
	KUNIT_CASE(zc_incomplete_message),
	KUNIT_CASE_PARAM(zc_insertion_fails, zc_insert_gen_params),
	KUNIT_CASE(zc_insertion_fails_late),
	KUNIT_CASE(zc_no_memory_for_headers),
	KUNIT_CASE(zc_no_memory_for_copies),
	KUNIT_CASE(zc_no_memory_for_copies_later),
	KUNIT_CASE(zc_packet_cannot_be_read),
	KUNIT_CASE_PARAM(zc_argument_cannot_be_read, zc_fault_gen_params),
	KUNIT_CASE_PARAM(zc_result_cannot_be_written, zc_fault_gen_params),
	KUNIT_CASE(zc_length_cannot_be_written),
	KUNIT_CASE_PARAM(zc_second_user_goes, zc_hands_gen_params),
	KUNIT_CASE_PARAM(zc_second_user_comes, zc_hands_gen_params),
	KUNIT_CASE(zc_old_pages_go),
	KUNIT_CASE(zc_not_unmapped),
	KUNIT_CASE(zc_partly_unmapped),
	KUNIT_CASE(zc_unmapped_and_true),
	KUNIT_CASE(zc_ranges_of_a_mapping),
	KUNIT_CASE(zc_references),
	KUNIT_CASE(zc_references_to_headers),
	KUNIT_CASE(zc_headers_are_not_changed),
	KUNIT_CASE(zc_pages_outlive_the_connection),
	KUNIT_CASE(zc_short_form),
	KUNIT_CASE(zc_short_form_not_the_start),
	KUNIT_CASE(zc_short_form_one_page),
	KUNIT_CASE(zc_every_length),
	KUNIT_CASE(zc_longer_argument),
	KUNIT_CASE_PARAM(zc_invalid_argument, zc_invalid_gen_params),
	KUNIT_CASE(zc_not_opted_in),
	KUNIT_CASE(zc_not_connected),
	KUNIT_CASE(zc_no_program_in_between),
	KUNIT_CASE(zc_never_connected),
	KUNIT_CASE(zc_transport_cannot),
#ifdef CONFIG_BPF_SYSCALL
	KUNIT_CASE(zc_in_a_sockmap),
#endif
	KUNIT_CASE(zc_opt_in_values),
	KUNIT_CASE(zc_opt_in_is_inherited),
	KUNIT_CASE_PARAM(zc_end, zc_end_gen_params),
	KUNIT_CASE(zc_local_shutdown),
	KUNIT_CASE(zc_connection_done),
	KUNIT_CASE(zc_transport_gone),
	KUNIT_CASE_PARAM(zc_mmap, zc_mmap_gen_params),
	KUNIT_CASE_PARAM(zc_random, zc_random_gen_params),
	{}
};

static struct kunit_suite zc_suite = {
	.name = "vsock_zerocopy",
	.init = zc_init,
	.exit = zc_exit,
	.test_cases = zc_cases,
};

kunit_test_suite(zc_suite);

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");
MODULE_DESCRIPTION("KUnit tests for AF_VSOCK receive into a mapping");
MODULE_LICENSE("GPL");
