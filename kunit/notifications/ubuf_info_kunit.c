// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for struct ubuf_info: who holds a reference on it, when it
 * completes, and that what became of the data is told once, whatever happens
 * to the skbs that carry it.
 *
 * The providers are MSG_ZEROCOPY, on the error queue of a real TCP socket that
 * is never connected, and two that count what they are asked: a plain one and
 * one that links. The skbs have pages of their own, which stand for those of a
 * program. Nothing is sent.
 */
#include <kunit/skbuff.h>
#include <kunit/test.h>
#include <linux/bvec.h>
#include <linux/errqueue.h>
#include <linux/in.h>
#include <linux/mm.h>
#include <linux/net.h>
#include <linux/skbuff.h>
#include <linux/uio.h>
#include <net/ip.h>
#include <net/net_namespace.h>
#include <net/sock.h>

/* Fragments of an skb of a case, and what they hold. */
#define UB_FRAGS	3
#define UB_FILL		0x5a

enum ub_provider {
	UB_MSG_ZEROCOPY,
	UB_STUB,		/* its data is copied before anybody else has it */
	UB_STUB_KEPT,		/* SKBFL_DONT_ORPHAN */
	UB_LINKING,
};

/* A provider that counts. */
struct ub_stub {
	struct ubuf_info uarg;
	unsigned int sent, copied, put;		/* calls of complete() */
	unsigned int done;			/* the last reference is gone */
	unsigned int links, unlinks, aborts, fills;
	int link_ret;
	int fill_ret;				/* of sg_from_iter() */
	unsigned int fill;			/* pages that it adds before */
};

struct ub_ctx {
	struct kunit *test;
	enum ub_provider provider;
	struct socket *sock;
	struct sock *sk;
	struct ub_stub stub[2];
	struct page *page[UB_FRAGS];
};

static struct ub_stub *ub_stub_of(struct ubuf_info *uarg)
{
	return container_of(uarg, struct ub_stub, uarg);
}

static void ub_complete(struct sk_buff *skb, struct ubuf_info *uarg, bool success)
{
	struct ub_stub *stub = ub_stub_of(uarg);

	if (!success)
		stub->copied++;
	else if (skb)
		stub->sent++;
	else
		stub->put++;
	if (refcount_dec_and_test(&uarg->refcnt))
		stub->done++;
}

/* Links to whatever is there, and keeps no list: that is io_uring's affair. */
static int ub_link(struct sk_buff *skb, struct ubuf_info *uarg)
{
	struct ub_stub *stub = ub_stub_of(uarg);
	struct ubuf_info *orig = skb_zcopy(skb);

	stub->links++;
	if (stub->link_ret)
		return stub->link_ret;
	if (!orig) {
		net_zcopy_get(uarg);
		skb_zcopy_init(skb, uarg);
	}
	return 0;
}

static void ub_unlink(struct sk_buff *skb, struct ubuf_info *uarg)
{
	ub_stub_of(uarg)->unlinks++;
}

static int ub_fill(struct sk_buff *skb, struct iov_iter *from, size_t length)
{
	struct ub_stub *stub = ub_stub_of(skb_zcopy(skb));
	unsigned int i;

	stub->fills++;
	for (i = 0; i < stub->fill; i++) {
		get_page(ZERO_PAGE(0));
		skb_add_rx_frag(skb, skb_shinfo(skb)->nr_frags, ZERO_PAGE(0), 0,
				PAGE_SIZE, PAGE_SIZE);
		iov_iter_advance(from, PAGE_SIZE);
	}
	return stub->fill_ret;
}

static void ub_abort(struct ubuf_info *uarg, bool have_uref)
{
	ub_stub_of(uarg)->aborts++;
	if (have_uref)
		net_zcopy_put(uarg);
}

static const struct ubuf_info_ops ub_stub_ops = {
	.complete = ub_complete,
};

static const struct ubuf_info_ops ub_linking_ops = {
	.complete = ub_complete,
	.link_skb = ub_link,
	.unlink_skb = ub_unlink,
	.abort = ub_abort,
	.sg_from_iter = ub_fill,
};

static struct ubuf_info *ub_stub_init(struct ub_stub *stub,
				      const struct ubuf_info_ops *ops, u8 flags)
{
	stub->uarg.ops = ops;
	stub->uarg.flags = flags;
	refcount_set(&stub->uarg.refcnt, 1);
	return &stub->uarg;
}

/* A ubuf_info of the provider of the case; the k-th when it is a stub. */
static struct ubuf_info *ub_alloc(struct ub_ctx *ub, unsigned int k)
{
	const struct ubuf_info_ops *ops = &ub_stub_ops;
	u8 flags = SKBFL_ZEROCOPY_FRAG;
	struct ubuf_info *uarg;

	switch (ub->provider) {
	case UB_MSG_ZEROCOPY:
		lock_sock(ub->sk);
		uarg = msg_zerocopy_realloc(ub->sk, PAGE_SIZE, NULL, false);
		release_sock(ub->sk);
		KUNIT_ASSERT_NOT_NULL(ub->test, uarg);
		return uarg;
	case UB_LINKING:
		ops = &ub_linking_ops;
		fallthrough;
	case UB_STUB_KEPT:
		flags |= SKBFL_DONT_ORPHAN;
		fallthrough;
	default:
		return ub_stub_init(&ub->stub[k], ops, flags);
	}
}

static int ub_refs(struct ubuf_info *uarg)
{
	return refcount_read(&uarg->refcnt);
}

/* Whether the data may be shared without a copy. */
static bool ub_kept(struct ub_ctx *ub)
{
	return ub->provider != UB_STUB;
}

/*
 * What the provider was told. Of MSG_ZEROCOPY, only what its socket tells the
 * program in the end is to be seen.
 */
static void ub_expect_pending(struct ub_ctx *ub)
{
	KUNIT_EXPECT_EQ(ub->test, ub->stub[0].done, 0);
	KUNIT_EXPECT_TRUE(ub->test, skb_queue_empty(&ub->sk->sk_error_queue));
}

static void ub_expect_done(struct ub_ctx *ub, unsigned int sent,
			   unsigned int copied)
{
	struct sk_buff_head *q = &ub->sk->sk_error_queue;
	const struct sock_extended_err *ee;
	struct sk_buff *skb;

	if (ub->provider != UB_MSG_ZEROCOPY) {
		KUNIT_EXPECT_EQ(ub->test, ub->stub[0].done, 1);
		KUNIT_EXPECT_EQ(ub->test, ub->stub[0].sent, sent);
		KUNIT_EXPECT_EQ(ub->test, ub->stub[0].copied, copied);
		return;
	}
	KUNIT_ASSERT_EQ(ub->test, skb_queue_len(q), 1);
	skb = skb_peek(q);
	ee = &SKB_EXT_ERR(skb)->ee;
	KUNIT_EXPECT_EQ(ub->test, ee->ee_origin, SO_EE_ORIGIN_ZEROCOPY);
	KUNIT_EXPECT_EQ(ub->test, ee->ee_info, 0);
	KUNIT_EXPECT_EQ(ub->test, ee->ee_data, 0);
	KUNIT_EXPECT_EQ(ub->test, ee->ee_code,
			copied ? SO_EE_CODE_ZEROCOPY_COPIED : 0);
}

static void ub_free_page(void *page)
{
	put_page(page);
}

static int ub_init(struct kunit *test)
{
	struct ub_ctx *ub = kunit_kzalloc(test, sizeof(*ub), GFP_KERNEL);
	unsigned int i;
	int err;

	KUNIT_ASSERT_NOT_NULL(test, ub);
	ub->test = test;
	test->priv = ub;
	for (i = 0; i < UB_FRAGS; i++) {
		ub->page[i] = alloc_page(GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, ub->page[i]);
		err = kunit_add_action_or_reset(test, ub_free_page, ub->page[i]);
		KUNIT_ASSERT_EQ(test, err, 0);
		memset(page_address(ub->page[i]), UB_FILL + i, PAGE_SIZE);
	}
	KUNIT_ASSERT_EQ(test, sock_create_kern(&init_net, AF_INET, SOCK_STREAM,
					       IPPROTO_TCP, &ub->sock), 0);
	ub->sk = ub->sock->sk;
	sock_set_flag(ub->sk, SOCK_ZEROCOPY);
	if (test->param_value)
		ub->provider = *(const enum ub_provider *)test->param_value;
	return 0;
}

static void ub_exit(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	unsigned int i;

	if (!ub)
		return;
	if (ub->sock)
		sock_release(ub->sock);
	/* No page is held, or was freed twice. */
	for (i = 0; i < UB_FRAGS && ub->page[i]; i++)
		KUNIT_EXPECT_EQ_MSG(test, page_ref_count(ub->page[i]), 1, "%u", i);
}

/* An skb with a few bytes and the pages of the case; carries nothing yet. */
static struct sk_buff *ub_skb(struct ub_ctx *ub)
{
	struct sk_buff *skb = alloc_skb(128, GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(ub->test, skb);
	skb_put_data(skb, "head", 4);
	for (i = 0; i < UB_FRAGS; i++) {
		get_page(ub->page[i]);
		skb_add_rx_frag(skb, i, ub->page[i], 0, PAGE_SIZE, PAGE_SIZE);
	}
	return skb;
}

/* One that carries a new ubuf_info and holds the only reference on it. */
static struct sk_buff *ub_zcopy_skb(struct ub_ctx *ub)
{
	struct ubuf_info *uarg = ub_alloc(ub, 0);
	struct sk_buff *skb = ub_skb(ub);
	bool have_ref = true;

	skb_zcopy_set(skb, uarg, &have_ref);
	return skb;
}

static void ub_expect_data(struct ub_ctx *ub, struct sk_buff *skb, bool copied)
{
	unsigned int i, first, last;
	u8 byte[2];

	KUNIT_EXPECT_EQ(ub->test, skb->len, 4 + UB_FRAGS * PAGE_SIZE);
	for (i = 0; i < UB_FRAGS; i++) {
		first = 4 + i * PAGE_SIZE;
		last = first + PAGE_SIZE - 1;
		KUNIT_EXPECT_EQ(ub->test, skb_copy_bits(skb, first, byte, 1), 0);
		KUNIT_EXPECT_EQ(ub->test, skb_copy_bits(skb, last, byte + 1, 1), 0);
		KUNIT_EXPECT_EQ(ub->test, byte[0], UB_FILL + i);
		KUNIT_EXPECT_EQ(ub->test, byte[1], UB_FILL + i);
		KUNIT_EXPECT_EQ(ub->test, page_ref_count(ub->page[i]), copied ? 1 : 2);
	}
}

/*
 * References.
 */

static void ub_get_put(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct ubuf_info *uarg = ub_alloc(ub, 0);

	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 1);
	net_zcopy_get(uarg);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 2);
	net_zcopy_put(uarg);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 1);
	ub_expect_pending(ub);
	net_zcopy_put(uarg);
	ub_expect_done(ub, 0, 0);
	net_zcopy_put(NULL);
}

static void ub_set(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct ubuf_info *uarg = ub_alloc(ub, 0);
	struct sk_buff *first = ub_skb(ub), *second = ub_skb(ub);
	bool have_ref = true;

	KUNIT_EXPECT_NULL(test, skb_zcopy(first));
	skb_zcopy_set(first, uarg, NULL);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 2);
	KUNIT_EXPECT_PTR_EQ(test, skb_zcopy(first), uarg);
	/* Again: no more. */
	skb_zcopy_set(first, uarg, &have_ref);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 2);
	KUNIT_EXPECT_TRUE(test, have_ref);
	/* The reference of the caller is used up, once. */
	skb_zcopy_set(second, uarg, &have_ref);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 2);
	KUNIT_EXPECT_FALSE(test, have_ref);
	skb_zcopy_set(NULL, uarg, NULL);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 2);

	consume_skb(first);
	ub_expect_pending(ub);
	consume_skb(second);
	ub_expect_done(ub, 2, 0);
}

/* An skb that carries another one is left alone. */
static void ub_set_where_another_is(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct ubuf_info *uarg = ub_alloc(ub, 0);
	struct ubuf_info *other = ub_stub_init(&ub->stub[1], &ub_stub_ops,
					       SKBFL_ZEROCOPY_FRAG);
	struct sk_buff *skb = ub_skb(ub);
	bool have_ref = true;

	skb_zcopy_set(skb, other, NULL);
	skb_zcopy_set(skb, uarg, &have_ref);
	KUNIT_EXPECT_TRUE(test, have_ref);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 1);
	KUNIT_EXPECT_EQ(test, ub_refs(other), 2);
	KUNIT_EXPECT_PTR_EQ(test, skb_zcopy(skb), other);
	consume_skb(skb);
	KUNIT_EXPECT_EQ(test, ub->stub[1].sent, 1);
	ub_expect_pending(ub);
	net_zcopy_put(uarg);
	ub_expect_done(ub, 0, 0);
}

static void ub_clear(struct kunit *test, bool success)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_zcopy_skb(ub);

	skb_zcopy_clear(skb, success);
	ub_expect_done(ub, success, !success);
	KUNIT_EXPECT_NULL(test, skb_zcopy(skb));
	KUNIT_EXPECT_EQ(test, skb_shinfo(skb)->flags & SKBFL_ALL_ZEROCOPY, 0);
	/* It is told once. */
	skb_zcopy_clear(skb, !success);
	consume_skb(skb);
	ub_expect_done(ub, success, !success);
}

static void ub_clear_success(struct kunit *test)
{
	ub_clear(test, true);
}

static void ub_clear_failure(struct kunit *test)
{
	ub_clear(test, false);
}

/* An skb that is dropped was not copied either. */
static void ub_free(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;

	kfree_skb(ub_zcopy_skb(ub));
	ub_expect_done(ub, 1, 0);
}

static void ub_tx_error(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_zcopy_skb(ub);

	skb_tx_error(skb);
	KUNIT_EXPECT_NULL(test, skb_zcopy(skb));
	ub_expect_done(ub, 1, 0);
	kfree_skb(skb);
	ub_expect_done(ub, 1, 0);
}

/* One copy among many skbs is a copy, and the last reference tells. */
static void ub_failure_then_success(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct ubuf_info *uarg = ub_alloc(ub, 0);
	struct sk_buff *skb[3];
	unsigned int i;

	for (i = 0; i < 3; i++) {
		skb[i] = ub_skb(ub);
		skb_zcopy_set(skb[i], uarg, NULL);
	}
	net_zcopy_put(uarg);
	consume_skb(skb[0]);
	KUNIT_EXPECT_EQ(test, skb_copy_ubufs(skb[1], GFP_KERNEL), 0);
	consume_skb(skb[1]);
	ub_expect_pending(ub);
	consume_skb(skb[2]);
	ub_expect_done(ub, 2, 1);
}

/*
 * Abort.
 */

static void ub_abort_with_reference(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct ubuf_info *uarg = ub_alloc(ub, 0);

	net_zcopy_put_abort(uarg, true);
	if (ub->provider != UB_MSG_ZEROCOPY) {
		KUNIT_EXPECT_EQ(test, ub->stub[0].done, 1);
		KUNIT_EXPECT_EQ(test, ub->stub[0].put, 1);
		KUNIT_EXPECT_EQ(test, ub->stub[0].aborts, ub->provider == UB_LINKING);
	} else {
		/* There was no such call: no completion, and no number. */
		KUNIT_EXPECT_TRUE(test, skb_queue_empty(&ub->sk->sk_error_queue));
		KUNIT_EXPECT_EQ(test, atomic_read(&ub->sk->sk_zckey), 0);
	}
	net_zcopy_put_abort(NULL, true);
}

static void ub_abort_without_reference(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct ubuf_info *uarg = ub_alloc(ub, 0);

	net_zcopy_put_abort(uarg, false);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 1);
	ub_expect_pending(ub);
	net_zcopy_put(uarg);
	if (ub->provider != UB_MSG_ZEROCOPY)
		ub_expect_done(ub, 0, 0);
	else
		KUNIT_EXPECT_TRUE(test, skb_queue_empty(&ub->sk->sk_error_queue));
}

/* The second of two calls that share one is aborted: the first completes. */
static void ub_abort_the_second_call(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct ubuf_info *uarg = ub_alloc(ub, 0), *again;

	lock_sock(ub->sk);
	again = msg_zerocopy_realloc(ub->sk, PAGE_SIZE, uarg, false);
	release_sock(ub->sk);
	KUNIT_ASSERT_PTR_EQ(test, again, uarg);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 2);
	KUNIT_EXPECT_EQ(test, atomic_read(&ub->sk->sk_zckey), 2);
	net_zcopy_put_abort(uarg, true);
	KUNIT_EXPECT_EQ(test, atomic_read(&ub->sk->sk_zckey), 1);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 1);
	ub_expect_pending(ub);
	net_zcopy_put(uarg);
	ub_expect_done(ub, 0, 0);
}

/* One of another provider is not extended: a stream begins another skb for it. */
static void ub_extend_a_foreign_one(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct ubuf_info *next, *uarg = ub_stub_init(&ub->stub[1], &ub_stub_ops,
						     SKBFL_ZEROCOPY_FRAG);

	lock_sock(ub->sk);
	next = msg_zerocopy_realloc(ub->sk, 1, uarg, false);
	release_sock(ub->sk);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 1);
	KUNIT_ASSERT_NOT_NULL(test, next);
	KUNIT_EXPECT_PTR_NE(test, next, uarg);
	KUNIT_EXPECT_EQ(test, ub_refs(next), 1);
	net_zcopy_put_abort(next, true);

	/* A datagram cannot. */
	ub->sk->sk_type = SOCK_DGRAM;
	lock_sock(ub->sk);
	KUNIT_EXPECT_NULL(test, msg_zerocopy_realloc(ub->sk, 1, uarg, false));
	release_sock(ub->sk);
	ub->sk->sk_type = SOCK_STREAM;
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 1);
	KUNIT_EXPECT_EQ(test, ub->stub[1].put, 0);
}

/*
 * What becomes of the skb.
 */

static void ub_clone(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_zcopy_skb(ub), *clone;

	clone = skb_clone(skb, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, clone);
	if (ub_kept(ub)) {
		/* They share it, and its one reference. */
		KUNIT_EXPECT_PTR_EQ(test, skb_zcopy(clone), skb_zcopy(skb));
		KUNIT_EXPECT_EQ(test, ub_refs(skb_zcopy(skb)), 1);
		ub_expect_data(ub, clone, false);
		consume_skb(skb);
		ub_expect_pending(ub);
		consume_skb(clone);
		ub_expect_done(ub, 1, 0);
		return;
	}
	ub_expect_done(ub, 0, 1);
	ub_expect_data(ub, clone, true);
	consume_skb(skb);
	consume_skb(clone);
	ub_expect_done(ub, 0, 1);
}

static void ub_orphan(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_zcopy_skb(ub);

	KUNIT_EXPECT_EQ(test, skb_orphan_frags(skb, GFP_KERNEL), 0);
	ub_expect_data(ub, skb, !ub_kept(ub));
	if (ub_kept(ub))
		ub_expect_pending(ub);
	else
		ub_expect_done(ub, 0, 1);
	consume_skb(skb);
	ub_expect_done(ub, ub_kept(ub), !ub_kept(ub));
}

/* On the way to a receiver, always. */
static void ub_orphan_rx(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_zcopy_skb(ub);

	KUNIT_EXPECT_EQ(test, skb_orphan_frags_rx(skb, GFP_KERNEL), 0);
	KUNIT_EXPECT_NULL(test, skb_zcopy(skb));
	ub_expect_done(ub, 0, 1);
	ub_expect_data(ub, skb, true);
	KUNIT_EXPECT_EQ(test, skb_orphan_frags_rx(skb, GFP_KERNEL), 0);
	consume_skb(skb);
	ub_expect_done(ub, 0, 1);
}

/* It cannot be copied: nothing is told, and nothing has changed. */
static void ub_orphan_fails(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_zcopy_skb(ub);

	skb_get(skb);
	KUNIT_EXPECT_EQ(test, skb_orphan_frags_rx(skb, GFP_KERNEL), -EINVAL);
	kfree_skb(skb);
	skb->unreadable = 1;
	KUNIT_EXPECT_EQ(test, skb_orphan_frags_rx(skb, GFP_KERNEL), -EFAULT);
	skb->unreadable = 0;
	KUNIT_EXPECT_NOT_NULL(test, skb_zcopy(skb));
	ub_expect_pending(ub);
	ub_expect_data(ub, skb, false);
	consume_skb(skb);
	ub_expect_done(ub, 1, 0);
}

/* A copy of all has nothing to do with it. */
static void ub_copy(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_zcopy_skb(ub), *copy;

	copy = skb_copy(skb, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, copy);
	KUNIT_EXPECT_NULL(test, skb_zcopy(copy));
	KUNIT_EXPECT_EQ(test, ub_refs(skb_zcopy(skb)), 1);
	ub_expect_data(ub, copy, false);
	consume_skb(skb);
	ub_expect_done(ub, 1, 0);
	ub_expect_data(ub, copy, true);
	consume_skb(copy);
	ub_expect_done(ub, 1, 0);
}

/* Two skbs with the same pages: a reference each. */
static void ub_two_heads(struct ub_ctx *ub, struct sk_buff *skb,
			 struct sk_buff *second)
{
	struct kunit *test = ub->test;

	KUNIT_ASSERT_NOT_NULL(test, second);
	if (ub_kept(ub)) {
		KUNIT_EXPECT_PTR_EQ(test, skb_zcopy(second), skb_zcopy(skb));
		KUNIT_EXPECT_EQ(test, ub_refs(skb_zcopy(skb)), 2);
		consume_skb(skb);
		ub_expect_pending(ub);
		consume_skb(second);
		ub_expect_done(ub, 2, 0);
		return;
	}
	ub_expect_done(ub, 0, 1);
	consume_skb(skb);
	consume_skb(second);
	ub_expect_done(ub, 0, 1);
}

static void ub_pskb_copy(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_zcopy_skb(ub);

	ub_two_heads(ub, skb, pskb_copy(skb, GFP_KERNEL));
}

static void ub_expand_a_clone(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_zcopy_skb(ub), *clone;

	clone = skb_clone(skb, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, clone);
	KUNIT_EXPECT_EQ(test, pskb_expand_head(clone, 64, 0, GFP_KERNEL), 0);
	ub_two_heads(ub, skb, clone);
}

/* The only head moves: so does the reference. */
static void ub_expand(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_zcopy_skb(ub);

	KUNIT_EXPECT_EQ(test, pskb_expand_head(skb, 64, 64, GFP_KERNEL), 0);
	KUNIT_ASSERT_NOT_NULL(test, skb_zcopy(skb));
	KUNIT_EXPECT_EQ(test, ub_refs(skb_zcopy(skb)), 1);
	ub_expect_data(ub, skb, false);
	consume_skb(skb);
	ub_expect_done(ub, 1, 0);
}

static void ub_split(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_zcopy_skb(ub);
	struct sk_buff *rest = alloc_skb(128, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, rest);
	skb_split(skb, rest, 4 + PAGE_SIZE / 2);
	KUNIT_EXPECT_EQ(test, skb->len, 4 + PAGE_SIZE / 2);
	KUNIT_EXPECT_PTR_EQ(test, skb_zcopy(rest), skb_zcopy(skb));
	KUNIT_EXPECT_EQ(test, ub_refs(skb_zcopy(skb)), 2);
	consume_skb(rest);
	ub_expect_pending(ub);
	KUNIT_EXPECT_EQ(test, skb_copy_ubufs(skb, GFP_KERNEL), 0);
	ub_expect_done(ub, 1, 1);
	consume_skb(skb);
	ub_expect_done(ub, 1, 1);
}

/* All data is pulled into the head: it was copied. */
static void ub_pull_all(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_zcopy_skb(ub);

	KUNIT_EXPECT_EQ(test, skb_linearize(skb), 0);
	KUNIT_EXPECT_NULL(test, skb_zcopy(skb));
	ub_expect_done(ub, 0, 1);
	ub_expect_data(ub, skb, true);
	consume_skb(skb);
	ub_expect_done(ub, 0, 1);
}

/*
 * Data is added to an skb of a stream.
 */

/* The test is no TCP: what was charged to the socket for the skb is not owed. */
static int ub_send(struct ub_ctx *ub, struct sk_buff *skb,
		   struct ubuf_info *uarg, struct msghdr *msg)
{
	int queued = ub->sk->sk_wmem_queued, ret;

	msg->msg_ubuf = uarg;
	/* Not charged to the memory of the protocol. */
	skb_shinfo(skb)->flags |= SKBFL_PURE_ZEROCOPY;
	ret = skb_zerocopy_iter_stream(ub->sk, skb, msg, iov_iter_count(&msg->msg_iter),
				       uarg, NULL);
	sk_wmem_queued_add(ub->sk, queued - ub->sk->sk_wmem_queued);
	return ret;
}

static int ub_send_pages(struct ub_ctx *ub, struct sk_buff *skb,
			 struct ubuf_info *uarg)
{
	struct bio_vec bvec[UB_FRAGS];
	struct msghdr msg = {};
	unsigned int i;
	int ret;

	for (i = 0; i < UB_FRAGS; i++)
		bvec_set_page(&bvec[i], ub->page[i], PAGE_SIZE, 0);
	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, bvec, UB_FRAGS, UB_FRAGS * PAGE_SIZE);
	ret = ub_send(ub, skb, uarg, &msg);
	KUNIT_EXPECT_EQ(ub->test, iov_iter_count(&msg.msg_iter),
			UB_FRAGS * PAGE_SIZE - max(ret, 0));
	return ret;
}

/* Memory of the kernel, which is not to be pinned. */
static int ub_send_fault(struct ub_ctx *ub, struct sk_buff *skb,
			 struct ubuf_info *uarg)
{
	struct kvec kvec = { .iov_base = ub, .iov_len = 1 };
	struct msghdr msg = {};

	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, &kvec, 1, 1);
	return ub_send(ub, skb, uarg, &msg);
}

static struct sk_buff *ub_empty_skb(struct ub_ctx *ub)
{
	struct sk_buff *skb = alloc_skb(128, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(ub->test, skb);
	return skb;
}

static void ub_stream(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct ubuf_info *uarg = ub_alloc(ub, 0);
	struct sk_buff *skb = ub_empty_skb(ub);

	ub->stub[0].fill = UB_FRAGS;
	KUNIT_EXPECT_EQ(test, ub_send_pages(ub, skb, uarg), UB_FRAGS * PAGE_SIZE);
	KUNIT_EXPECT_PTR_EQ(test, skb_zcopy(skb), uarg);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 2);
	/* More of the same call. */
	KUNIT_EXPECT_EQ(test, ub_send_pages(ub, skb, uarg), UB_FRAGS * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 2);
	KUNIT_EXPECT_EQ(test, ub->stub[0].fills, ub->provider == UB_LINKING ? 2 : 0);
	KUNIT_EXPECT_EQ(test, ub->stub[0].links, ub->provider == UB_LINKING ? 2 : 0);
	KUNIT_EXPECT_EQ(test, ub->stub[0].unlinks, 0);
	net_zcopy_put(uarg);
	ub_expect_pending(ub);
	consume_skb(skb);
	ub_expect_done(ub, 1, 0);
}

/* A provider that does not link has its skbs for itself. */
static void ub_stream_where_another_is(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct ubuf_info *uarg = ub_alloc(ub, 0);
	struct ubuf_info *other = ub_stub_init(&ub->stub[1], &ub_linking_ops,
					       SKBFL_ZEROCOPY_FRAG);
	struct sk_buff *skb = ub_empty_skb(ub);

	skb_zcopy_set(skb, other, NULL);
	ub->stub[0].link_ret = -EEXIST;
	KUNIT_EXPECT_EQ(test, ub_send_pages(ub, skb, uarg), -EEXIST);
	KUNIT_EXPECT_EQ(test, skb->len, 0);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 1);
	KUNIT_EXPECT_EQ(test, ub_refs(other), 2);
	KUNIT_EXPECT_PTR_EQ(test, skb_zcopy(skb), other);
	KUNIT_EXPECT_EQ(test, ub->stub[0].unlinks, 0);
	KUNIT_EXPECT_EQ(test, ub->stub[1].links + ub->stub[1].unlinks, 0);
	net_zcopy_put(uarg);
	ub_expect_done(ub, 0, 0);
	consume_skb(skb);
}

static void ub_stream_fault(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct ubuf_info *uarg = ub_alloc(ub, 0);
	struct sk_buff *skb = ub_skb(ub);
	u8 flags = SKBFL_PURE_ZEROCOPY;

	ub->stub[0].fill_ret = -EFAULT;
	KUNIT_EXPECT_EQ(test, ub_send_fault(ub, skb, uarg), -EFAULT);
	KUNIT_EXPECT_NULL(test, skb_zcopy(skb));
	KUNIT_EXPECT_EQ(test, skb_shinfo(skb)->flags, flags);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 1);
	ub_expect_data(ub, skb, false);
	net_zcopy_put(uarg);
	ub_expect_done(ub, 0, 0);
	consume_skb(skb);
	ub_expect_done(ub, 0, 0);
}

/* Some of it was added before: it is taken away again. */
static void ub_stream_fault_after_some(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_skb(ub);
	struct ubuf_info *uarg;

	ub->provider = UB_LINKING;
	uarg = ub_alloc(ub, 0);
	ub->stub[0].fill = 2;
	ub->stub[0].fill_ret = -EFAULT;
	KUNIT_EXPECT_EQ(test, ub_send_pages(ub, skb, uarg), -EFAULT);
	KUNIT_EXPECT_NULL(test, skb_zcopy(skb));
	KUNIT_EXPECT_EQ(test, skb_shinfo(skb)->nr_frags, UB_FRAGS);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 1);
	KUNIT_EXPECT_EQ(test, ub->stub[0].unlinks, 0);
	ub_expect_data(ub, skb, false);
	net_zcopy_put(uarg);
	ub_expect_done(ub, 0, 0);
	consume_skb(skb);
}

/* Full after some of it: that was sent. */
static void ub_stream_full_after_some(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_empty_skb(ub);
	struct ubuf_info *uarg;

	ub->provider = UB_LINKING;
	uarg = ub_alloc(ub, 0);
	ub->stub[0].fill = 2;
	ub->stub[0].fill_ret = -EMSGSIZE;
	KUNIT_EXPECT_EQ(test, ub_send_pages(ub, skb, uarg), 2 * PAGE_SIZE);
	KUNIT_EXPECT_PTR_EQ(test, skb_zcopy(skb), uarg);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 2);
	/* And now at once: nothing changes. */
	ub->stub[0].fill = 0;
	KUNIT_EXPECT_EQ(test, ub_send_pages(ub, skb, uarg), -EMSGSIZE);
	KUNIT_EXPECT_PTR_EQ(test, skb_zcopy(skb), uarg);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 2);
	KUNIT_EXPECT_EQ(test, ub->stub[0].unlinks, 0);
	net_zcopy_put(uarg);
	consume_skb(skb);
	ub_expect_done(ub, 1, 0);
}

/*
 * What was linked to another one is unlinked when nothing was added, and only
 * then. Here the one that fills is that of the message, so the skb's own one,
 * which the stub looks at, is set up alike.
 */
static void ub_stream_unlink(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_empty_skb(ub);
	struct ubuf_info *uarg, *other;

	ub->provider = UB_LINKING;
	uarg = ub_alloc(ub, 0);
	other = ub_alloc(ub, 1);
	skb_zcopy_set(skb, other, NULL);

	ub->stub[1].fill_ret = -EFAULT;
	KUNIT_EXPECT_EQ(test, ub_send_pages(ub, skb, uarg), -EFAULT);
	KUNIT_EXPECT_EQ(test, ub->stub[0].links, 1);
	KUNIT_EXPECT_EQ(test, ub->stub[0].unlinks, 1);
	ub->stub[1].fill_ret = -EMSGSIZE;
	KUNIT_EXPECT_EQ(test, ub_send_pages(ub, skb, uarg), -EMSGSIZE);
	KUNIT_EXPECT_EQ(test, ub->stub[0].unlinks, 2);
	ub->stub[1].fill = 1;
	KUNIT_EXPECT_EQ(test, ub_send_pages(ub, skb, uarg), PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, ub->stub[0].links, 3);
	KUNIT_EXPECT_EQ(test, ub->stub[0].unlinks, 2);
	/* Not the one of the skb, and no reference of it. */
	KUNIT_EXPECT_EQ(test, ub->stub[1].links + ub->stub[1].unlinks, 0);
	KUNIT_EXPECT_PTR_EQ(test, skb_zcopy(skb), other);
	KUNIT_EXPECT_EQ(test, ub_refs(other), 2);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 1);
	consume_skb(skb);
}

/* The provider of the message fills, not one of a message without any. */
static void ub_fill_without_provider(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_empty_skb(ub);
	struct bio_vec bvec;
	struct msghdr msg = {};
	struct ubuf_info *uarg;

	ub->provider = UB_LINKING;
	uarg = ub_alloc(ub, 0);
	skb_zcopy_set(skb, uarg, NULL);
	skb_shinfo(skb)->flags |= SKBFL_PURE_ZEROCOPY;
	bvec_set_page(&bvec, ub->page[0], PAGE_SIZE, 0);
	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, &bvec, 1, PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, __zerocopy_sg_from_iter(&msg, ub->sk, skb, &msg.msg_iter,
						      PAGE_SIZE, NULL), 0);
	sk_wmem_queued_add(ub->sk, -(int)PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, ub->stub[0].fills, 0);
	KUNIT_EXPECT_EQ(test, skb->len, PAGE_SIZE);
	consume_skb(skb);
}

/*
 * Data is added to a datagram that is put together.
 */

/* An skb whose checksum the device makes, with so many fragments. */
static struct sk_buff *ub_dgram(struct ub_ctx *ub, unsigned int frags)
{
	struct sk_buff *skb = ub_empty_skb(ub);
	unsigned int i;

	skb_put_zero(skb, 28);
	skb->ip_summed = CHECKSUM_PARTIAL;
	for (i = 0; i < frags; i++) {
		get_page(ub->page[0]);
		skb_add_rx_frag(skb, i, ub->page[0], 0, 1, 1);
	}
	return skb;
}

/* Whether as much as @pages may be added without a copy. */
static bool ub_append(struct ub_ctx *ub, struct sk_buff *skb,
		      struct ubuf_info *uarg, unsigned int pages,
		      unsigned int maxlen)
{
	struct msghdr msg = { .msg_ubuf = uarg };
	struct bio_vec bvec[UB_FRAGS];
	unsigned int i;

	for (i = 0; i < pages; i++)
		bvec_set_page(&bvec[i], ub->page[i], PAGE_SIZE, 0);
	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, bvec, pages, pages * PAGE_SIZE);
	return ip_append_zerocopy(skb, &msg, pages * PAGE_SIZE, maxlen);
}

static void ub_append_links(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_dgram(ub, 0);
	struct ubuf_info *uarg, *other;

	ub->provider = UB_LINKING;
	uarg = ub_alloc(ub, 0);
	other = ub_alloc(ub, 1);
	/* To none, to itself, to another. */
	KUNIT_EXPECT_TRUE(test, ub_append(ub, skb, uarg, 1, IP_MAX_MTU));
	KUNIT_EXPECT_PTR_EQ(test, skb_zcopy(skb), uarg);
	KUNIT_EXPECT_TRUE(test, ub_append(ub, skb, uarg, 1, IP_MAX_MTU));
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 2);
	KUNIT_EXPECT_TRUE(test, ub_append(ub, skb, other, 1, IP_MAX_MTU));
	KUNIT_EXPECT_EQ(test, ub->stub[0].links, 2);
	KUNIT_EXPECT_EQ(test, ub->stub[1].links, 1);
	KUNIT_EXPECT_PTR_EQ(test, skb_zcopy(skb), uarg);
	consume_skb(skb);
}

/* Whoever cannot be linked is copied. */
static void ub_append_refused(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_dgram(ub, 0);
	struct ubuf_info *uarg, *other;

	ub->provider = UB_LINKING;
	uarg = ub_alloc(ub, 0);
	other = ub_alloc(ub, 1);
	skb_zcopy_set(skb, other, NULL);
	ub->stub[0].link_ret = -EEXIST;
	KUNIT_EXPECT_FALSE(test, ub_append(ub, skb, uarg, 1, IP_MAX_MTU));
	KUNIT_EXPECT_EQ(test, ub->stub[0].links, 1);
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 1);
	KUNIT_EXPECT_PTR_EQ(test, skb_zcopy(skb), other);
	consume_skb(skb);
}

static void ub_append_without_links(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_dgram(ub, 0);
	struct ubuf_info *uarg;

	ub->provider = UB_STUB;
	uarg = ub_alloc(ub, 0);
	KUNIT_EXPECT_FALSE(test, ub_append(ub, skb, uarg, 1, IP_MAX_MTU));
	KUNIT_EXPECT_EQ(test, ub_refs(uarg), 1);
	KUNIT_EXPECT_NULL(test, skb_zcopy(skb));
	consume_skb(skb);
}

/* The checksum was made when the data was copied: it goes on so. */
static void ub_append_checksum(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_dgram(ub, 0);
	struct ubuf_info *uarg;

	ub->provider = UB_LINKING;
	uarg = ub_alloc(ub, 0);
	skb->ip_summed = CHECKSUM_NONE;
	KUNIT_EXPECT_FALSE(test, ub_append(ub, skb, uarg, 1, IP_MAX_MTU));
	KUNIT_EXPECT_EQ(test, ub->stub[0].links, 0);
	KUNIT_EXPECT_NULL(test, skb_zcopy(skb));
	consume_skb(skb);
}

/* What fills the skb to the last byte, and what opens another. */
static void ub_append_length(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_dgram(ub, 0);
	struct ubuf_info *uarg;

	ub->provider = UB_LINKING;
	uarg = ub_alloc(ub, 0);
	KUNIT_EXPECT_FALSE(test, ub_append(ub, skb, uarg, 1, skb->len + PAGE_SIZE - 1));
	KUNIT_EXPECT_EQ(test, ub->stub[0].links, 0);
	KUNIT_EXPECT_TRUE(test, ub_append(ub, skb, uarg, 1, skb->len + PAGE_SIZE));
	consume_skb(skb);
}

/* Three fragments are left to data that is copied. */
static void ub_append_fragments(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *room = ub_dgram(ub, MAX_SKB_FRAGS - 3 - UB_FRAGS);
	struct sk_buff *full = ub_dgram(ub, MAX_SKB_FRAGS - 2 - UB_FRAGS);
	struct ubuf_info *uarg;

	ub->provider = UB_LINKING;
	uarg = ub_alloc(ub, 0);
	KUNIT_EXPECT_FALSE(test, ub_append(ub, full, uarg, UB_FRAGS, IP_MAX_MTU));
	KUNIT_EXPECT_EQ(test, ub->stub[0].links, 0);
	KUNIT_EXPECT_TRUE(test, ub_append(ub, full, uarg, UB_FRAGS - 1, IP_MAX_MTU));
	KUNIT_EXPECT_TRUE(test, ub_append(ub, room, uarg, UB_FRAGS, IP_MAX_MTU));
	consume_skb(room);
	consume_skb(full);
}

/* Copies that follow each other share a fragment, whatever the skb carries. */
static void ub_append_copies(struct kunit *test)
{
	struct ub_ctx *ub = test->priv;
	struct sk_buff *skb = ub_zcopy_skb(ub);
	struct page_frag pfrag = { .page = ub->page[UB_FRAGS - 1], .offset = 100 };

	skb_frag_size_set(&skb_shinfo(skb)->frags[UB_FRAGS - 1], 90);
	skb_frag_off_set(&skb_shinfo(skb)->frags[UB_FRAGS - 1], 10);
	KUNIT_EXPECT_TRUE(test, ip_can_coalesce(skb, UB_FRAGS, &pfrag));
	pfrag.offset = 101;
	KUNIT_EXPECT_FALSE(test, ip_can_coalesce(skb, UB_FRAGS, &pfrag));
	pfrag.offset = 90;
	KUNIT_EXPECT_FALSE(test, ip_can_coalesce(skb, UB_FRAGS, &pfrag));
	pfrag.offset = 100;
	pfrag.page = ub->page[0];
	KUNIT_EXPECT_FALSE(test, ip_can_coalesce(skb, UB_FRAGS, &pfrag));
	KUNIT_EXPECT_FALSE(test, ip_can_coalesce(skb, 0, &pfrag));
	consume_skb(skb);
}

static const enum ub_provider ub_providers[] = {
	UB_MSG_ZEROCOPY, UB_STUB, UB_STUB_KEPT, UB_LINKING,
};

static void ub_provider_desc(const enum ub_provider *p, char *desc)
{
	static const char * const name[] = {
		[UB_MSG_ZEROCOPY] = "MSG_ZEROCOPY",
		[UB_STUB] = "copied on clone",
		[UB_STUB_KEPT] = "kept on clone",
		[UB_LINKING] = "links",
	};

	strscpy(desc, name[*p], KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(ub_providers, ub_providers, ub_provider_desc);

static struct kunit_case ub_cases[] = {
	KUNIT_CASE_PARAM(ub_get_put, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_set, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_set_where_another_is, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_clear_success, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_clear_failure, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_free, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_tx_error, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_failure_then_success, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_abort_with_reference, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_abort_without_reference, ub_providers_gen_params),
	KUNIT_CASE(ub_abort_the_second_call),
	KUNIT_CASE(ub_extend_a_foreign_one),
	KUNIT_CASE_PARAM(ub_clone, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_orphan, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_orphan_rx, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_orphan_fails, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_copy, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_pskb_copy, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_expand_a_clone, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_expand, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_split, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_pull_all, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_stream, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_stream_where_another_is, ub_providers_gen_params),
	KUNIT_CASE_PARAM(ub_stream_fault, ub_providers_gen_params),
	KUNIT_CASE(ub_stream_fault_after_some),
	KUNIT_CASE(ub_stream_full_after_some),
	KUNIT_CASE(ub_stream_unlink),
	KUNIT_CASE(ub_fill_without_provider),
	KUNIT_CASE(ub_append_links),
	KUNIT_CASE(ub_append_refused),
	KUNIT_CASE(ub_append_without_links),
	KUNIT_CASE(ub_append_checksum),
	KUNIT_CASE(ub_append_length),
	KUNIT_CASE(ub_append_fragments),
	KUNIT_CASE(ub_append_copies),
	{}
};

static struct kunit_suite ub_suite = {
	.name = "ubuf_info",
	.init = ub_init,
	.exit = ub_exit,
	.test_cases = ub_cases,
};

kunit_test_suite(ub_suite);

MODULE_DESCRIPTION("KUnit tests for struct ubuf_info");
MODULE_LICENSE("GPL");
