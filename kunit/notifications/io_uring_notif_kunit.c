// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for the notifications of zero-copy sends of io_uring: which of
 * them share an skb, when they complete, what they say about the data, and how
 * often somebody is woken.
 *
 * The ring is made by hand: as much of a ring with IORING_SETUP_DEFER_TASKRUN
 * as a notification sees. Notifications, links, skbs and the task work are the
 * kernel's own; the requests come from memory that is full of rubbish. Nothing
 * is sent: an skb that is freed was sent without a copy, one whose data is
 * copied (skb_copy_ubufs()) was not. Where requests are prepared and issued,
 * the socket only takes note.
 */
#include <kunit/skbuff.h>
#include <kunit/test.h>
#include <kunit/test-bug.h>
#include <linux/bvec.h>
#include <linux/completion.h>
#include <linux/file.h>
#include <linux/io_uring_types.h>
#include <linux/in.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/net.h>
#include <linux/prandom.h>
#include <linux/resource.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/sizes.h>
#include <linux/skbuff.h>
#include <linux/uio.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#include "../io_uring.h"
#include "../net.h"
#include "../notif.h"
#include "../timeout.h"
#include "../wait.h"

/* Notifications, skbs, rings and tasks of a case. */
#define NT_NOTIFS	48
#define NT_SKBS		24
#define NT_RINGS	2
#define NT_TASKS	2

/* What memory of a request holds before the request is made. */
#define NT_RUBBISH	0xa5

/* The members of the chain that is freed in every order, and those orders. */
#define NT_CHAIN	5
#define NT_ORDERS	120

/* What a request sends, and the part that a socket takes that takes a part. */
#define NT_SEND		100
#define NT_PART		30

struct nt_notif {
	struct io_kiocb *req;
	struct io_notif_data *nd;
	bool flushed;
	/* The times that it completed, and when it did so last. */
	unsigned int completed;
	unsigned int place;
};

/* A socket that takes note of what it is asked to send. */
struct nt_wire {
	const struct proto_ops *tcp;
	struct socket *sock;
	struct file *file;
	int takes;
	unsigned int calls;
	/* Of the last call. */
	unsigned int flags;
	struct ubuf_info *uarg;
};

struct nt_ctx {
	struct kunit *test;
	struct io_ring_ctx *ring[NT_RINGS];
	struct io_uring_task *task[NT_TASKS];
	struct user_struct user;
	struct socket *sock;
	struct nt_wire wire;
	struct nt_notif notif[NT_NOTIFS];
	unsigned int notifs;
	struct sk_buff *skb[NT_SKBS];
	unsigned int skbs;
	/* Task work that was run, and completions seen. */
	unsigned int works;
	unsigned int completions;
};

/*
 * The parts of a ring that a notification sees, and its task work.
 */

static struct io_ring_ctx *nt_alloc_ring(struct kunit *test)
{
	struct io_ring_ctx *ring = kunit_kzalloc(test, sizeof(*ring), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, ring);
	mutex_init(&ring->uring_lock);
	mpscq_init(&ring->work_list, &ring->work_head);
	INIT_WQ_LIST(&ring->submit_state.compl_reqs);
	atomic_set(&ring->cq_wait_nr, IO_CQ_WAKE_INIT);
	ring->flags = IORING_SETUP_DEFER_TASKRUN;
	ring->submitter_task = current;
	return ring;
}

/* Runs what task work the ring has; returns how many there were. */
static unsigned int nt_run_work(struct io_ring_ctx *ring)
{
	struct io_tw_state ts = {};
	struct llist_node *node;
	struct io_kiocb *req;
	unsigned int n = 0;

	mutex_lock(&ring->uring_lock);
	while ((node = mpscq_pop(&ring->work_list, &ring->work_head))) {
		req = container_of(node, struct io_kiocb, io_task_work.node);
		req->io_task_work.func((struct io_tw_req){ req }, ts);
		n++;
	}
	mutex_unlock(&ring->uring_lock);
	return n;
}

static bool nt_work_pending(struct io_ring_ctx *ring)
{
	return !mpscq_empty(&ring->work_list);
}

/* The number of lazy additions that a waiter still waits for. */
static void nt_wait_for(struct io_ring_ctx *ring, int n)
{
	atomic_set(&ring->cq_wait_nr, n);
}

static int nt_still_waits_for(struct io_ring_ctx *ring)
{
	return atomic_read(&ring->cq_wait_nr);
}

/*
 * Notifications and skbs.
 */

static int nt_init(struct kunit *test)
{
	struct nt_ctx *nt = kunit_kzalloc(test, sizeof(*nt), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, nt);
	nt->test = test;
	for (i = 0; i < NT_RINGS; i++)
		nt->ring[i] = nt_alloc_ring(test);
	for (i = 0; i < NT_TASKS; i++) {
		nt->task[i] = kunit_kzalloc(test, sizeof(*nt->task[i]), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, nt->task[i]);
		nt->task[i]->cached_refs = 2 * NT_NOTIFS;
	}
	test->priv = nt;
	return 0;
}

/* What a case leaves is freed; the notifications of it are not looked at. */
static void nt_exit(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	unsigned int i;

	if (!nt)
		return;
	for (i = 0; i < nt->skbs; i++)
		consume_skb(nt->skb[i]);
	if (nt->sock)
		sock_release(nt->sock);
	if (nt->wire.file) {
		nt->wire.sock->ops = nt->wire.tcp;
		fput(nt->wire.file);
	}
}

/* Memory that is full of rubbish, where the next notification will be. */
static struct nt_notif *nt_spare(struct nt_ctx *nt, struct io_ring_ctx *ctx)
{
	struct nt_notif *n = &nt->notif[nt->notifs];

	KUNIT_ASSERT_LT(nt->test, nt->notifs, NT_NOTIFS);
	n->req = kunit_kzalloc(nt->test, sizeof(*n->req), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(nt->test, n->req);
	memset(&n->req->cmd, NT_RUBBISH, sizeof(n->req->cmd));
	n->nd = io_notif_to_data(n->req);

	mutex_lock(&ctx->uring_lock);
	wq_stack_add_head(&n->req->comp_list, &ctx->submit_state.free_list);
	mutex_unlock(&ctx->uring_lock);
	return n;
}

static struct nt_notif *nt_notif_of(struct nt_ctx *nt, unsigned int ring,
				    unsigned int task)
{
	struct io_ring_ctx *ctx = nt->ring[ring];
	struct nt_notif *n = nt_spare(nt, ctx);
	struct io_kiocb *req;

	mutex_lock(&ctx->uring_lock);
	/* For this one call, the thread is a task that uses io_uring. */
	current->io_uring = nt->task[task];
	req = io_alloc_notif(ctx);
	current->io_uring = NULL;
	mutex_unlock(&ctx->uring_lock);

	KUNIT_ASSERT_PTR_EQ(nt->test, n->req, req);
	req->cqe.user_data = nt->notifs++;
	req->cqe.res = 0;
	return n;
}

static struct nt_notif *nt_notif(struct nt_ctx *nt)
{
	return nt_notif_of(nt, 0, 0);
}

/* One whose request asks for a report of usage. */
static struct nt_notif *nt_notif_report(struct nt_ctx *nt)
{
	struct nt_notif *n = nt_notif(nt);

	n->nd->zc_report = true;
	n->nd->zc_used = false;
	n->nd->zc_copied = false;
	return n;
}

static struct sk_buff *nt_skb(struct nt_ctx *nt)
{
	struct sk_buff *skb = alloc_skb(64, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(nt->test, skb);
	KUNIT_ASSERT_LT(nt->test, nt->skbs, NT_SKBS);
	nt->skb[nt->skbs++] = skb;
	return skb;
}

static void nt_forget_skb(struct nt_ctx *nt, struct sk_buff *skb)
{
	unsigned int i;

	for (i = 0; i < nt->skbs && nt->skb[i] != skb; i++)
		;
	KUNIT_ASSERT_LT(nt->test, i, nt->skbs);
	nt->skb[i] = nt->skb[--nt->skbs];
}

/* The skb was sent as it is. */
static void nt_sent(struct nt_ctx *nt, struct sk_buff *skb)
{
	nt_forget_skb(nt, skb);
	consume_skb(skb);
}

/* The data of the skb was copied on its way. */
static void nt_copied(struct nt_ctx *nt, struct sk_buff *skb)
{
	KUNIT_EXPECT_EQ(nt->test, skb_copy_ubufs(skb, GFP_KERNEL), 0);
	KUNIT_EXPECT_NULL(nt->test, skb_zcopy(skb));
	nt_sent(nt, skb);
}

/* The request puts data of its own into the skb. */
static int nt_link(struct nt_notif *n, struct sk_buff *skb)
{
	return n->nd->uarg.ops->link_skb(skb, &n->nd->uarg);
}

/* The request is over. */
static void nt_flush(struct nt_notif *n)
{
	struct io_ring_ctx *ring = n->req->ctx;

	mutex_lock(&ring->uring_lock);
	io_notif_flush(n->req);
	mutex_unlock(&ring->uring_lock);
	n->flushed = true;
}

static int nt_refs(struct nt_notif *n)
{
	return refcount_read(&n->nd->uarg.refcnt);
}

/* Runs all task work and sees which notifications have completed. */
static void nt_run(struct nt_ctx *nt)
{
	struct io_wq_work_node *node;
	struct io_kiocb *req;
	unsigned int i, r, left;

	for (r = 0; r < NT_RINGS; r++)
		nt->works += nt_run_work(nt->ring[r]);
	/* A ring may have passed something on to one before it. */
	for (r = 0; r < NT_RINGS; r++)
		nt->works += nt_run_work(nt->ring[r]);

	for (r = 0; r < NT_RINGS; r++) {
		left = NT_NOTIFS;
		__wq_list_for_each(node, &nt->ring[r]->submit_state.compl_reqs) {
			if (!left--)
				break;
			req = container_of(node, struct io_kiocb, comp_list);
			i = req->cqe.user_data;
			KUNIT_ASSERT_LT(nt->test, i, nt->notifs);
			KUNIT_EXPECT_PTR_EQ_MSG(nt->test, req->ctx, nt->ring[r],
						"%u completes in another ring", i);
			KUNIT_EXPECT_EQ_MSG(nt->test, nt_refs(&nt->notif[i]), 0,
					    "%u completes too early", i);
			nt->notif[i].completed++;
			nt->notif[i].place = nt->completions++;
		}
		INIT_WQ_LIST(&nt->ring[r]->submit_state.compl_reqs);
	}
}

/* Nothing is left to do, and each notification has completed once. */
static void nt_expect_all_complete(struct nt_ctx *nt)
{
	unsigned int i;

	nt_run(nt);
	for (i = 0; i < nt->notifs; i++)
		KUNIT_EXPECT_EQ_MSG(nt->test, nt->notif[i].completed, 1, "%u", i);
	KUNIT_EXPECT_EQ(nt->test, nt->completions, nt->notifs);
}

static void nt_expect_none_complete(struct nt_ctx *nt)
{
	nt_run(nt);
	KUNIT_EXPECT_EQ(nt->test, nt->completions, 0);
}

static bool nt_says_copied(struct nt_notif *n)
{
	return n->req->cqe.res & IORING_NOTIF_USAGE_ZC_COPIED;
}

/*
 * The state of a notification and of an skb, for what must not change.
 */
struct nt_state {
	int refs, head_refs, carrier_refs;
	struct io_notif_data *next, *head;
	struct ubuf_info *uarg;
	u8 skb_flags;
};

static struct nt_state nt_state(struct nt_notif *n, struct sk_buff *skb)
{
	struct ubuf_info *uarg = skb_zcopy(skb);

	return (struct nt_state) {
		.refs = nt_refs(n),
		.head_refs = refcount_read(&n->nd->head->uarg.refcnt),
		.carrier_refs = uarg ? refcount_read(&uarg->refcnt) : 0,
		.next = n->nd->next,
		.head = n->nd->head,
		.uarg = uarg,
		.skb_flags = skb_shinfo(skb)->flags,
	};
}

static void nt_expect_state(struct nt_ctx *nt, struct nt_state was,
			    struct nt_notif *n, struct sk_buff *skb)
{
	struct nt_state is = nt_state(n, skb);

	KUNIT_EXPECT_EQ(nt->test, is.refs, was.refs);
	KUNIT_EXPECT_EQ(nt->test, is.head_refs, was.head_refs);
	KUNIT_EXPECT_EQ(nt->test, is.carrier_refs, was.carrier_refs);
	KUNIT_EXPECT_PTR_EQ(nt->test, is.next, was.next);
	KUNIT_EXPECT_PTR_EQ(nt->test, is.head, was.head);
	KUNIT_EXPECT_PTR_EQ(nt->test, is.uarg, was.uarg);
	KUNIT_EXPECT_EQ(nt->test, is.skb_flags, was.skb_flags);
}

static void nt_expect_refused(struct nt_ctx *nt, struct nt_notif *n,
			      struct sk_buff *skb)
{
	struct nt_state was = nt_state(n, skb);

	KUNIT_ASSERT_EQ(nt->test, nt_link(n, skb), -EEXIST);
	nt_expect_state(nt, was, n, skb);
}

/* A provider that is not io_uring. */
struct nt_stub {
	struct ubuf_info uarg;
	unsigned int completed;
};

static void nt_stub_complete(struct sk_buff *skb, struct ubuf_info *uarg,
			     bool success)
{
	struct nt_stub *stub = container_of(uarg, struct nt_stub, uarg);

	if (refcount_dec_and_test(&uarg->refcnt))
		stub->completed++;
}

static const struct ubuf_info_ops nt_stub_ops = {
	.complete = nt_stub_complete,
};

/*
 * Which links are made.
 */

/* An empty skb takes any notification: it gets a reference. */
static void nt_bind(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *n = nt_notif(nt);
	struct sk_buff *skb = nt_skb(nt);

	KUNIT_EXPECT_EQ(test, nt_refs(n), 1);
	KUNIT_EXPECT_EQ(test, nt_link(n, skb), 0);
	KUNIT_EXPECT_EQ(test, nt_refs(n), 2);
	KUNIT_EXPECT_PTR_EQ(test, skb_zcopy(skb), &n->nd->uarg);
	KUNIT_EXPECT_EQ(test, skb_shinfo(skb)->flags, IO_NOTIF_UBUF_FLAGS);
	KUNIT_EXPECT_PTR_EQ(test, n->nd->head, n->nd);
	KUNIT_EXPECT_NULL(test, n->nd->next);

	nt_flush(n);
	nt_expect_none_complete(nt);
	nt_sent(nt, skb);
	nt_expect_all_complete(nt);
	KUNIT_EXPECT_EQ(test, nt->works, 1);
}

static void nt_never_sent(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *n = nt_notif(nt);

	nt_flush(n);
	nt_expect_all_complete(nt);
	KUNIT_EXPECT_FALSE(test, nt_says_copied(n));
}

/* Data of a request lies in many skbs. */
static void nt_many_skbs(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *n = nt_notif(nt);
	struct sk_buff *skb[5];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(skb); i++) {
		skb[i] = nt_skb(nt);
		KUNIT_EXPECT_EQ(test, nt_link(n, skb[i]), 0);
		KUNIT_EXPECT_EQ(test, nt_refs(n), i + 2);
	}
	for (i = 0; i < ARRAY_SIZE(skb); i++)
		nt_sent(nt, skb[i]);
	nt_expect_none_complete(nt);
	nt_flush(n);
	nt_expect_all_complete(nt);
}

/* The notification that the skb has already: nothing is to be done. */
static void nt_self(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *head = nt_notif(nt), *member = nt_notif(nt);
	struct sk_buff *skb = nt_skb(nt), *next = nt_skb(nt);
	struct nt_state was;

	KUNIT_ASSERT_EQ(test, nt_link(head, skb), 0);
	was = nt_state(head, skb);
	KUNIT_EXPECT_EQ(test, nt_link(head, skb), 0);
	nt_expect_state(nt, was, head, skb);

	/* As the leader of others, and as one that follows another. */
	KUNIT_ASSERT_EQ(test, nt_link(member, skb), 0);
	was = nt_state(head, skb);
	KUNIT_EXPECT_EQ(test, nt_link(head, skb), 0);
	nt_expect_state(nt, was, head, skb);
	KUNIT_ASSERT_EQ(test, nt_link(member, next), 0);
	was = nt_state(member, next);
	KUNIT_EXPECT_EQ(test, nt_link(member, next), 0);
	nt_expect_state(nt, was, member, next);

	nt_flush(head);
	nt_flush(member);
	nt_sent(nt, skb);
	nt_expect_none_complete(nt);
	nt_sent(nt, next);
	nt_expect_all_complete(nt);
}

/* A second one on an skb: it takes a reference on the first, not on the skb. */
static void nt_linked(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *head = nt_notif(nt), *member = nt_notif(nt);
	struct sk_buff *skb = nt_skb(nt);

	KUNIT_ASSERT_EQ(test, nt_link(head, skb), 0);
	KUNIT_EXPECT_EQ(test, nt_link(member, skb), 0);
	KUNIT_EXPECT_EQ(test, nt_refs(head), 3);
	KUNIT_EXPECT_EQ(test, nt_refs(member), 1);
	KUNIT_EXPECT_PTR_EQ(test, skb_zcopy(skb), &head->nd->uarg);
	KUNIT_EXPECT_PTR_EQ(test, member->nd->head, head->nd);

	/* Its request is over, the data is not gone. */
	nt_flush(member);
	KUNIT_EXPECT_EQ(test, nt_refs(head), 2);
	nt_flush(head);
	nt_expect_none_complete(nt);
	nt_sent(nt, skb);
	nt_expect_all_complete(nt);
	KUNIT_EXPECT_EQ(test, nt->works, 1);
}

/* The skb is gone before the request is over. */
static void nt_linked_flushed_last(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *head = nt_notif(nt), *member = nt_notif(nt);
	struct sk_buff *skb = nt_skb(nt);

	KUNIT_ASSERT_EQ(test, nt_link(head, skb), 0);
	KUNIT_ASSERT_EQ(test, nt_link(member, skb), 0);
	nt_sent(nt, skb);
	nt_flush(head);
	nt_expect_none_complete(nt);
	KUNIT_EXPECT_EQ(test, nt_refs(head), 1);
	nt_flush(member);
	nt_expect_all_complete(nt);
	KUNIT_EXPECT_EQ(test, nt->works, 1);
}

/* One that is linked is not linked again; an empty skb it may have. */
static void nt_linked_twice(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *head = nt_notif(nt), *other = nt_notif(nt);
	struct nt_notif *member = nt_notif(nt);
	struct sk_buff *skb = nt_skb(nt), *second = nt_skb(nt);
	struct sk_buff *empty = nt_skb(nt);

	KUNIT_ASSERT_EQ(test, nt_link(head, skb), 0);
	KUNIT_ASSERT_EQ(test, nt_link(other, second), 0);
	KUNIT_ASSERT_EQ(test, nt_link(member, skb), 0);
	nt_expect_refused(nt, member, second);
	nt_expect_refused(nt, member, skb);
	KUNIT_EXPECT_EQ(test, nt_link(member, empty), 0);
	KUNIT_EXPECT_EQ(test, nt_refs(member), 2);
	KUNIT_EXPECT_PTR_EQ(test, member->nd->head, head->nd);

	nt_flush(head);
	nt_flush(other);
	nt_flush(member);
	nt_sent(nt, second);
	nt_run(nt);
	KUNIT_EXPECT_EQ(test, other->completed, 1);
	KUNIT_EXPECT_EQ(test, nt->completions, 1);
	nt_sent(nt, skb);
	nt_run(nt);
	KUNIT_EXPECT_EQ(test, nt->completions, 1);
	nt_sent(nt, empty);
	nt_expect_all_complete(nt);
}

/* One that leads others follows nobody; an empty skb it may have. */
static void nt_leader(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *head = nt_notif(nt), *other = nt_notif(nt);
	struct nt_notif *member = nt_notif(nt);
	struct sk_buff *skb = nt_skb(nt), *second = nt_skb(nt);
	struct sk_buff *empty = nt_skb(nt);

	KUNIT_ASSERT_EQ(test, nt_link(head, skb), 0);
	KUNIT_ASSERT_EQ(test, nt_link(other, second), 0);
	KUNIT_ASSERT_EQ(test, nt_link(member, skb), 0);
	nt_expect_refused(nt, head, second);
	KUNIT_EXPECT_EQ(test, nt_link(head, empty), 0);
	KUNIT_EXPECT_PTR_EQ(test, skb_zcopy(empty), &head->nd->uarg);

	nt_flush(head);
	nt_flush(other);
	nt_flush(member);
	nt_sent(nt, skb);
	nt_sent(nt, second);
	nt_run(nt);
	KUNIT_EXPECT_EQ(test, nt->completions, 1);
	KUNIT_EXPECT_EQ(test, other->completed, 1);
	nt_sent(nt, empty);
	nt_expect_all_complete(nt);
}

/* One that has an skb of its own may still follow another. */
static void nt_with_skb_of_its_own(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *head = nt_notif(nt), *member = nt_notif(nt);
	struct sk_buff *own = nt_skb(nt), *skb = nt_skb(nt);

	KUNIT_ASSERT_EQ(test, nt_link(member, own), 0);
	KUNIT_ASSERT_EQ(test, nt_link(head, skb), 0);
	KUNIT_EXPECT_EQ(test, nt_link(member, skb), 0);
	nt_flush(head);
	nt_flush(member);
	nt_sent(nt, skb);
	nt_expect_none_complete(nt);
	nt_sent(nt, own);
	nt_expect_all_complete(nt);
	KUNIT_EXPECT_EQ(test, nt->works, 1);
}

/* Who links to an skb of a member belongs to the head of that member. */
static void nt_member_leads(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *head = nt_notif(nt), *member = nt_notif(nt);
	struct nt_notif *last = nt_notif(nt);
	struct sk_buff *skb = nt_skb(nt), *second = nt_skb(nt);

	KUNIT_ASSERT_EQ(test, nt_link(head, skb), 0);
	KUNIT_ASSERT_EQ(test, nt_link(member, skb), 0);
	KUNIT_ASSERT_EQ(test, nt_link(member, second), 0);
	KUNIT_EXPECT_EQ(test, nt_link(last, second), 0);
	KUNIT_EXPECT_PTR_EQ(test, last->nd->head, head->nd);
	KUNIT_EXPECT_EQ(test, nt_refs(head), 4);
	KUNIT_EXPECT_EQ(test, nt_refs(member), 2);

	nt_flush(head);
	nt_flush(member);
	nt_sent(nt, skb);
	nt_sent(nt, second);
	nt_expect_none_complete(nt);
	nt_flush(last);
	nt_expect_all_complete(nt);
}

static void nt_foreign_provider(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_stub stub = {
		.uarg = { .ops = &nt_stub_ops, .flags = SKBFL_ZEROCOPY_FRAG },
	};
	struct nt_notif *n = nt_notif(nt), *alike = nt_notif(nt);
	struct sk_buff *skb = nt_skb(nt), *second = nt_skb(nt);
	const struct ubuf_info_ops *ops = alike->nd->uarg.ops;

	refcount_set(&stub.uarg.refcnt, 1);
	skb_zcopy_init(skb, &stub.uarg);
	nt_expect_refused(nt, n, skb);
	KUNIT_EXPECT_EQ(test, stub.completed, 0);
	nt_sent(nt, skb);
	KUNIT_EXPECT_EQ(test, stub.completed, 1);

	/* Also when what lies around it looks like a request of this ring. */
	KUNIT_ASSERT_EQ(test, nt_link(alike, second), 0);
	alike->nd->uarg.ops = &nt_stub_ops;
	nt_expect_refused(nt, n, second);
	alike->nd->uarg.ops = ops;

	nt_flush(alike);
	nt_sent(nt, second);
	nt_flush(n);
	nt_expect_all_complete(nt);
}

/* Notifications of two rings never share an skb, whichever comes first. */
static void nt_foreign_ring(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *n[2] = { nt_notif_of(nt, 0, 0), nt_notif_of(nt, 1, 0) };
	struct sk_buff *skb[2] = { nt_skb(nt), nt_skb(nt) };

	KUNIT_ASSERT_EQ(test, nt_link(n[0], skb[0]), 0);
	nt_expect_refused(nt, n[1], skb[0]);
	KUNIT_ASSERT_EQ(test, nt_link(n[1], skb[1]), 0);
	nt_expect_refused(nt, n[0], skb[1]);

	nt_flush(n[0]);
	nt_flush(n[1]);
	nt_sent(nt, skb[1]);
	nt_run(nt);
	KUNIT_EXPECT_EQ(test, n[0]->completed, 0);
	KUNIT_EXPECT_EQ(test, n[1]->completed, 1);
	nt_sent(nt, skb[0]);
	nt_expect_all_complete(nt);
}

static void nt_foreign_task(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *n[2] = { nt_notif_of(nt, 0, 0), nt_notif_of(nt, 0, 1) };
	struct sk_buff *skb[2] = { nt_skb(nt), nt_skb(nt) };

	KUNIT_ASSERT_EQ(test, nt_link(n[0], skb[0]), 0);
	nt_expect_refused(nt, n[1], skb[0]);
	KUNIT_ASSERT_EQ(test, nt_link(n[1], skb[1]), 0);
	nt_expect_refused(nt, n[0], skb[1]);

	nt_flush(n[0]);
	nt_flush(n[1]);
	nt_sent(nt, skb[0]);
	nt_sent(nt, skb[1]);
	nt_expect_all_complete(nt);
	KUNIT_EXPECT_EQ(test, nt->works, 2);
}

/* Nor through a member, which is not the one that the ring was compared with. */
static void nt_foreign_ring_behind_a_member(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *head = nt_notif(nt), *member = nt_notif(nt);
	struct nt_notif *other = nt_notif_of(nt, 1, 0);
	struct nt_notif *stranger = nt_notif_of(nt, 0, 1);
	struct sk_buff *skb = nt_skb(nt), *second = nt_skb(nt);

	KUNIT_ASSERT_EQ(test, nt_link(head, skb), 0);
	KUNIT_ASSERT_EQ(test, nt_link(member, skb), 0);
	KUNIT_ASSERT_EQ(test, nt_link(member, second), 0);
	nt_expect_refused(nt, other, second);
	nt_expect_refused(nt, stranger, second);
	nt_expect_refused(nt, other, skb);
	nt_expect_refused(nt, stranger, skb);

	nt_flush(head);
	nt_flush(member);
	nt_flush(other);
	nt_flush(stranger);
	nt_sent(nt, skb);
	nt_sent(nt, second);
	nt_expect_all_complete(nt);
	KUNIT_EXPECT_EQ(test, nt->works, 3);
}

/*
 * When a chain completes.
 */

/* The k-th order of NT_CHAIN things. */
static void nt_order(unsigned int k, unsigned int *order)
{
	unsigned int left[NT_CHAIN], i, j, pick, f = NT_ORDERS;

	for (i = 0; i < NT_CHAIN; i++)
		left[i] = i;
	for (i = 0; i < NT_CHAIN; i++) {
		f /= NT_CHAIN - i;
		pick = k / f;
		k %= f;
		order[i] = left[pick];
		for (j = pick; j + 1 < NT_CHAIN - i; j++)
			left[j] = left[j + 1];
	}
}

/*
 * The last reference of each is dropped in the given order. The chain completes
 * with the last of all, in one task work.
 */
static void nt_free_in_order(struct kunit *test, unsigned int k, bool straddle)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *n[NT_CHAIN];
	struct sk_buff *skb[NT_CHAIN];
	unsigned int order[NT_CHAIN], i;

	nt_order(k, order);
	nt->notifs = 0;
	nt->works = 0;
	nt->completions = 0;
	memset(nt->notif, 0, sizeof(nt->notif));
	nt->task[0]->cached_refs = 2 * NT_NOTIFS;

	for (i = 0; i < NT_CHAIN; i++) {
		n[i] = nt_notif(nt);
		if (!i || straddle)
			skb[i] = nt_skb(nt);
		if (i) {
			KUNIT_ASSERT_EQ(test, nt_link(n[i], skb[straddle ? i - 1 : 0]), 0);
			KUNIT_ASSERT_PTR_EQ(test, n[i]->nd->head, n[0]->nd);
		}
		if (!i || straddle)
			KUNIT_ASSERT_EQ(test, nt_link(n[i], skb[i]), 0);
	}

	for (i = 0; i < NT_CHAIN; i++) {
		KUNIT_EXPECT_FALSE_MSG(test, nt_work_pending(nt->ring[0]),
				       "order %u, before %u", k, i);
		KUNIT_EXPECT_GT_MSG(test, nt_refs(n[0]), 0, "order %u, before %u", k, i);
		/* Alternately the request or its skb goes first. */
		if (k & 1)
			nt_flush(n[order[i]]);
		if (!order[i] || straddle)
			nt_sent(nt, skb[order[i]]);
		if (!(k & 1))
			nt_flush(n[order[i]]);
		if (order[i])
			KUNIT_EXPECT_EQ_MSG(test, nt_refs(n[order[i]]), 0,
					    "order %u, %u", k, order[i]);
	}
	for (i = 0; i < NT_CHAIN; i++)
		KUNIT_EXPECT_EQ_MSG(test, nt_refs(n[i]), 0, "order %u, %u", k, i);
	nt_run(nt);
	KUNIT_EXPECT_EQ_MSG(test, nt->works, 1, "order %u", k);
	KUNIT_EXPECT_EQ_MSG(test, nt->completions, NT_CHAIN, "order %u", k);
	for (i = 0; i < NT_CHAIN; i++)
		KUNIT_EXPECT_EQ_MSG(test, n[i]->completed, 1, "order %u, %u", k, i);
}

/* All on one skb. */
static void nt_chain_in_every_order(struct kunit *test)
{
	unsigned int k;

	for (k = 0; k < NT_ORDERS; k++)
		nt_free_in_order(test, k, false);
}

/* Each begins on the last skb of the one before. */
static void nt_straddling_chain_in_every_order(struct kunit *test)
{
	unsigned int k;

	for (k = 0; k < NT_ORDERS; k++)
		nt_free_in_order(test, k, true);
}

/* The memory of all is charged until the chain completes, and then no more. */
static void nt_locked_memory(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *n[NT_CHAIN];
	struct sk_buff *skb = nt_skb(nt);
	unsigned int i, pages = 0;

	nt->ring[0]->user = &nt->user;
	for (i = 0; i < NT_CHAIN; i++) {
		n[i] = nt_notif(nt);
		n[i]->nd->account_pages = 3 + i;
		pages += 3 + i;
		KUNIT_ASSERT_EQ(test, nt_link(n[i], skb), 0);
	}
	atomic_long_set(&nt->user.locked_vm, 100 + pages);
	for (i = 0; i < NT_CHAIN; i++)
		nt_flush(n[i]);
	nt_run(nt);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&nt->user.locked_vm), 100 + pages);
	nt_sent(nt, skb);
	nt_expect_all_complete(nt);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&nt->user.locked_vm), 100);
}

/*
 * Who is woken.
 */

/* Notifications that stand alone are counted down by one each. */
static void nt_wake_counts_down(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *n;
	int i;

	nt_wait_for(nt->ring[0], NT_CHAIN);
	for (i = NT_CHAIN - 1; i >= 0; i--) {
		n = nt_notif(nt);
		nt_flush(n);
		KUNIT_EXPECT_EQ(test, nt_still_waits_for(nt->ring[0]), i);
	}
	nt_expect_all_complete(nt);
	KUNIT_EXPECT_EQ(test, nt->works, NT_CHAIN);
}

/* A chain is one task work: it must not be counted as one completion. */
static void nt_wake_for_a_chain(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *n[NT_CHAIN];
	struct sk_buff *skb = nt_skb(nt);
	unsigned int i;

	for (i = 0; i < NT_CHAIN; i++) {
		n[i] = nt_notif(nt);
		KUNIT_ASSERT_EQ(test, nt_link(n[i], skb), 0);
	}
	nt_wait_for(nt->ring[0], NT_CHAIN);
	for (i = 0; i < NT_CHAIN; i++)
		nt_flush(n[i]);
	KUNIT_EXPECT_EQ(test, nt_still_waits_for(nt->ring[0]), NT_CHAIN);
	nt_sent(nt, skb);
	KUNIT_EXPECT_EQ(test, nt_still_waits_for(nt->ring[0]), IO_CQ_WAKE_INIT);
	nt_expect_all_complete(nt);
	KUNIT_EXPECT_EQ(test, nt->works, 1);
}

struct nt_sleeper {
	struct completion asleep;
	struct completion woken;
};

static int nt_sleep(void *arg)
{
	struct nt_sleeper *s = arg;

	set_current_state(TASK_INTERRUPTIBLE);
	complete(&s->asleep);
	schedule();
	__set_current_state(TASK_RUNNING);
	complete(&s->woken);
	while (!kthread_should_stop())
		schedule_timeout_uninterruptible(1);
	return 0;
}

/* A task that sleeps until two completions are there wakes for a chain of two. */
static void nt_wake_a_sleeper(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *head = nt_notif(nt), *member = nt_notif(nt);
	struct nt_sleeper s = {};
	struct sk_buff *skb = nt_skb(nt);
	struct task_struct *task;

	KUNIT_ASSERT_EQ(test, nt_link(head, skb), 0);
	KUNIT_ASSERT_EQ(test, nt_link(member, skb), 0);
	nt_flush(head);
	nt_flush(member);

	init_completion(&s.asleep);
	init_completion(&s.woken);
	task = kthread_run(nt_sleep, &s, "io_uring_notif");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, task);
	nt->ring[0]->submitter_task = task;
	wait_for_completion(&s.asleep);
	nt_wait_for(nt->ring[0], 2);
	nt_sent(nt, skb);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&s.woken, 10 * HZ), 0);
	kthread_stop(task);
	nt->ring[0]->submitter_task = current;
	nt_expect_all_complete(nt);
}

/*
 * Any number of rings, tasks, notifications and skbs, in any order: each chain
 * is of one ring and one task and completes when all its requests are over and
 * all its skbs are gone, no sooner and no later.
 */

struct nt_model {
	struct rnd_state rnd;
	/* The head of each notification, and what each skb carries. */
	unsigned int head[NT_NOTIFS];
	unsigned int ring[NT_NOTIFS];
	unsigned int task[NT_NOTIFS];
	struct sk_buff *skb[NT_SKBS];
	int carrier[NT_SKBS];
};

static unsigned int nt_pick(struct nt_model *m, unsigned int n)
{
	return prandom_u32_state(&m->rnd) % n;
}

static bool nt_model_alone(struct nt_ctx *nt, struct nt_model *m, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < nt->notifs; i++)
		if (i != n && m->head[i] == m->head[n])
			return false;
	return true;
}

static bool nt_model_over(struct nt_ctx *nt, struct nt_model *m, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < nt->notifs; i++)
		if (m->head[i] == m->head[n] && !nt->notif[i].flushed)
			return false;
	for (i = 0; i < NT_SKBS; i++)
		if (m->skb[i] && m->carrier[i] >= 0 &&
		    m->head[m->carrier[i]] == m->head[n])
			return false;
	return true;
}

static void nt_model_link(struct nt_ctx *nt, struct nt_model *m, unsigned int n,
			  unsigned int s)
{
	int carrier, ret, want = 0;

	if (!m->skb[s]) {
		m->skb[s] = nt_skb(nt);
		m->carrier[s] = -1;
	}
	carrier = m->carrier[s];
	if (carrier >= 0 && carrier != n &&
	    (m->ring[n] != m->ring[carrier] || m->task[n] != m->task[carrier] ||
	     !nt_model_alone(nt, m, n)))
		want = -EEXIST;
	ret = nt_link(&nt->notif[n], m->skb[s]);
	KUNIT_ASSERT_EQ(nt->test, ret, want);
	if (ret || carrier == n)
		return;
	if (carrier < 0)
		m->carrier[s] = n;
	else
		m->head[n] = m->head[carrier];
}

static void nt_random(struct kunit *test)
{
	const unsigned int *seed = test->param_value;
	struct nt_ctx *nt = test->priv;
	struct nt_model *m;
	unsigned int i, s, step;

	m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, m);
	prandom_seed_state(&m->rnd, *seed);
	for (i = 0; i < NT_NOTIFS; i++) {
		/* Mostly of one kind, or there is little to link. */
		m->ring[i] = !nt_pick(m, 5);
		m->task[i] = !nt_pick(m, 5);
		m->head[i] = i;
		nt_notif_of(nt, m->ring[i], m->task[i]);
	}

	for (step = 0; step < 2000 || nt->completions < nt->notifs; step++) {
		KUNIT_ASSERT_LT(test, step, 100000);
		i = nt_pick(m, NT_NOTIFS);
		s = nt_pick(m, NT_SKBS);
		switch (nt_pick(m, 16)) {
		case 0:
			if (!nt->notif[i].flushed)
				nt_flush(&nt->notif[i]);
			break;
		case 1:
		case 2:
		case 3:
			if (m->skb[s]) {
				nt_sent(nt, m->skb[s]);
				m->skb[s] = NULL;
			}
			break;
		default:
			if (!nt->notif[i].flushed)
				nt_model_link(nt, m, i, s);
			break;
		}
		nt_run(nt);
		for (i = 0; i < nt->notifs; i++)
			KUNIT_ASSERT_EQ_MSG(test, nt->notif[i].completed,
					    nt_model_over(nt, m, i),
					    "step %u, %u", step, i);
	}
}

static const unsigned int nt_seeds[] = { 1, 2, 3, 4, 5, 6, 7, 8 };

static void nt_seed_desc(const unsigned int *seed, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "seed %u", *seed);
}

KUNIT_ARRAY_PARAM(nt_seeds, nt_seeds, nt_seed_desc);

/*
 * What a notification says about the data: copied when the data of one of the
 * skbs that it lies in was copied, or when it lay in none that was sent.
 */

static void nt_usage_alone(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *sent = nt_notif_report(nt), *copied = nt_notif_report(nt);
	struct nt_notif *both = nt_notif_report(nt), *none = nt_notif_report(nt);
	struct sk_buff *skb[4] = { nt_skb(nt), nt_skb(nt), nt_skb(nt), nt_skb(nt) };

	KUNIT_ASSERT_EQ(test, nt_link(sent, skb[0]), 0);
	KUNIT_ASSERT_EQ(test, nt_link(copied, skb[1]), 0);
	KUNIT_ASSERT_EQ(test, nt_link(both, skb[2]), 0);
	KUNIT_ASSERT_EQ(test, nt_link(both, skb[3]), 0);
	nt_flush(sent);
	nt_flush(copied);
	nt_flush(both);
	nt_flush(none);
	nt_sent(nt, skb[0]);
	nt_copied(nt, skb[1]);
	nt_copied(nt, skb[2]);
	nt_sent(nt, skb[3]);
	nt_expect_all_complete(nt);
	KUNIT_EXPECT_FALSE(test, nt_says_copied(sent));
	KUNIT_EXPECT_TRUE(test, nt_says_copied(copied));
	KUNIT_EXPECT_TRUE(test, nt_says_copied(both));
	KUNIT_EXPECT_TRUE(test, nt_says_copied(none));
}

/* Who did not ask is told nothing. */
static void nt_usage_not_asked_for(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *head = nt_notif(nt), *member = nt_notif(nt);
	struct sk_buff *skb = nt_skb(nt);

	KUNIT_ASSERT_EQ(test, nt_link(head, skb), 0);
	KUNIT_ASSERT_EQ(test, nt_link(member, skb), 0);
	nt_flush(head);
	nt_flush(member);
	nt_copied(nt, skb);
	nt_expect_all_complete(nt);
	KUNIT_EXPECT_EQ(test, head->req->cqe.res, 0);
	KUNIT_EXPECT_EQ(test, member->req->cqe.res, 0);
}

/* Five on one skb; the requests are over before or after it is gone. */
static void nt_usage_chain(struct kunit *test, bool copied, bool flush_first)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *n[NT_CHAIN];
	struct sk_buff *skb = nt_skb(nt);
	unsigned int i;

	for (i = 0; i < NT_CHAIN; i++) {
		n[i] = nt_notif_report(nt);
		KUNIT_ASSERT_EQ(test, nt_link(n[i], skb), 0);
	}
	for (i = 0; flush_first && i < NT_CHAIN; i++)
		nt_flush(n[i]);
	if (copied)
		nt_copied(nt, skb);
	else
		nt_sent(nt, skb);
	for (i = 0; !flush_first && i < NT_CHAIN; i++)
		nt_flush(n[i]);
	nt_expect_all_complete(nt);
	for (i = 0; i < NT_CHAIN; i++)
		KUNIT_EXPECT_EQ_MSG(test, nt_says_copied(n[i]), copied, "%u", i);
}

static void nt_usage_linked_sent(struct kunit *test)
{
	nt_usage_chain(test, false, true);
}

static void nt_usage_linked_sent_flushed_last(struct kunit *test)
{
	nt_usage_chain(test, false, false);
}

static void nt_usage_linked_copied(struct kunit *test)
{
	nt_usage_chain(test, true, true);
}

static void nt_usage_linked_copied_flushed_last(struct kunit *test)
{
	nt_usage_chain(test, true, false);
}

/* Only one of the two asks. */
static void nt_usage_of_a_silent_head(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *sent[2] = { nt_notif(nt), nt_notif_report(nt) };
	struct nt_notif *copied[2] = { nt_notif(nt), nt_notif_report(nt) };
	struct nt_notif *other[2] = { nt_notif_report(nt), nt_notif(nt) };
	struct sk_buff *skb[3] = { nt_skb(nt), nt_skb(nt), nt_skb(nt) };
	unsigned int i;

	for (i = 0; i < 2; i++) {
		KUNIT_ASSERT_EQ(test, nt_link(sent[i], skb[0]), 0);
		KUNIT_ASSERT_EQ(test, nt_link(copied[i], skb[1]), 0);
		KUNIT_ASSERT_EQ(test, nt_link(other[i], skb[2]), 0);
		nt_flush(sent[i]);
		nt_flush(copied[i]);
		nt_flush(other[i]);
	}
	nt_sent(nt, skb[0]);
	nt_copied(nt, skb[1]);
	nt_copied(nt, skb[2]);
	nt_expect_all_complete(nt);
	KUNIT_EXPECT_EQ(test, sent[0]->req->cqe.res, 0);
	KUNIT_EXPECT_FALSE(test, nt_says_copied(sent[1]));
	KUNIT_EXPECT_EQ(test, copied[0]->req->cqe.res, 0);
	KUNIT_EXPECT_TRUE(test, nt_says_copied(copied[1]));
	KUNIT_EXPECT_TRUE(test, nt_says_copied(other[0]));
	KUNIT_EXPECT_EQ(test, other[1]->req->cqe.res, 0);
}

/*
 * Three requests in two skbs: the second begins on the skb of the first and
 * ends on one of its own, where the third begins. Each is told about the skbs
 * that its data lay in; whichever reference goes last carries nothing over.
 */
static void nt_usage_straddling(struct kunit *test, bool first_copied,
				bool second_copied, bool flush_first)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *n[3];
	struct sk_buff *skb[2] = { nt_skb(nt), nt_skb(nt) };
	unsigned int i;

	for (i = 0; i < 3; i++)
		n[i] = nt_notif_report(nt);
	KUNIT_ASSERT_EQ(test, nt_link(n[0], skb[0]), 0);
	KUNIT_ASSERT_EQ(test, nt_link(n[1], skb[0]), 0);
	KUNIT_ASSERT_EQ(test, nt_link(n[1], skb[1]), 0);
	KUNIT_ASSERT_EQ(test, nt_link(n[2], skb[1]), 0);
	for (i = 0; flush_first && i < 3; i++)
		nt_flush(n[i]);
	if (first_copied)
		nt_copied(nt, skb[0]);
	else
		nt_sent(nt, skb[0]);
	if (second_copied)
		nt_copied(nt, skb[1]);
	else
		nt_sent(nt, skb[1]);
	for (i = 0; !flush_first && i < 3; i++)
		nt_flush(n[i]);
	nt_expect_all_complete(nt);
	KUNIT_EXPECT_EQ(test, nt_says_copied(n[0]), first_copied);
	KUNIT_EXPECT_EQ(test, nt_says_copied(n[1]), first_copied || second_copied);
	KUNIT_EXPECT_EQ(test, nt_says_copied(n[2]), second_copied);
}

static void nt_usage_straddling_sent(struct kunit *test)
{
	nt_usage_straddling(test, false, false, true);
}

static void nt_usage_straddling_first_copied(struct kunit *test)
{
	nt_usage_straddling(test, true, false, true);
}

static void nt_usage_straddling_second_copied(struct kunit *test)
{
	nt_usage_straddling(test, false, true, true);
}

static void nt_usage_straddling_copied(struct kunit *test)
{
	nt_usage_straddling(test, true, true, true);
}

static void nt_usage_straddling_flushed_last(struct kunit *test)
{
	nt_usage_straddling(test, true, false, false);
}

static void nt_usage_straddling_second_flushed_last(struct kunit *test)
{
	nt_usage_straddling(test, false, true, false);
}

/*
 * A chain with a notification of another ring in it is not made: nt_random()
 * and the cases above. If there were one, nothing of it would be lost.
 */

/* Links as the kernel does, whatever ring the two are of. */
static void nt_force_link(struct nt_notif *n, struct nt_notif *behind)
{
	n->nd->head = behind->nd->head;
	n->nd->next = behind->nd->next;
	behind->nd->next = n->nd;
	refcount_inc(&n->nd->head->uarg.refcnt);
}

static void nt_wrong_ring(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	static const unsigned int ring[] = { 0, 0, 1, 1, 0, 0 };
	struct nt_notif *n[ARRAY_SIZE(ring)];
	struct sk_buff *skb = nt_skb(nt);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ring); i++) {
		n[i] = nt_notif_of(nt, ring[i], 0);
		if (i)
			nt_force_link(n[i], n[i - 1]);
		else
			KUNIT_ASSERT_EQ(test, nt_link(n[i], skb), 0);
	}
	for (i = 0; i < ARRAY_SIZE(ring); i++)
		nt_flush(n[i]);
	nt_expect_none_complete(nt);
	nt_sent(nt, skb);
	/* The kernel may say that this should not be. */
	kunit_warning_suppress(test) {
		nt_run(nt);
	}
	nt_expect_all_complete(nt);
	KUNIT_EXPECT_EQ(test, nt->works, 3);
}

/*
 * A send that fails. What it did not use it must not keep.
 */

static struct sock *nt_sock(struct nt_ctx *nt)
{
	KUNIT_ASSERT_EQ(nt->test, sock_create_kern(&init_net, AF_INET, SOCK_STREAM,
						   IPPROTO_TCP, &nt->sock), 0);
	return nt->sock->sk;
}

/* Memory that cannot be pinned. */
static int nt_send_fault(struct sock *sk, struct nt_notif *n, struct sk_buff *skb)
{
	char byte = 0;
	struct kvec kvec = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = { .msg_ubuf = &n->nd->uarg };

	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, &kvec, 1, 1);
	return skb_zerocopy_iter_stream(sk, skb, &msg, 1, &n->nd->uarg, NULL);
}

/* A page, for an skb that may have no room for it. */
static int nt_send_page(struct sock *sk, struct nt_notif *n, struct sk_buff *skb)
{
	struct msghdr msg = { .msg_ubuf = &n->nd->uarg };
	struct bio_vec bvec;

	bvec_set_page(&bvec, ZERO_PAGE(0), 1, 0);
	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, &bvec, 1, 1);
	return skb_zerocopy_iter_stream(sk, skb, &msg, 1, &n->nd->uarg, NULL);
}

static void nt_fill_skb(struct nt_ctx *nt, struct sk_buff *skb)
{
	struct page *page;
	int i;

	for (i = 0; i < MAX_SKB_FRAGS; i++) {
		page = alloc_page(GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(nt->test, page);
		skb_add_rx_frag(skb, i, page, 0, 1, PAGE_SIZE);
	}
}

static void nt_fails_on_an_empty_skb(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *n = nt_notif(nt);
	struct sk_buff *skb = nt_skb(nt);
	struct sock *sk = nt_sock(nt);
	struct nt_state was = nt_state(n, skb);

	KUNIT_EXPECT_EQ(test, nt_send_fault(sk, n, skb), -EFAULT);
	nt_expect_state(nt, was, n, skb);
	nt_flush(n);
	nt_expect_all_complete(nt);
}

/* The data of others in the skb is plain, and is again. */
static void nt_fails_on_an_skb_of_others(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *n = nt_notif(nt);
	struct sk_buff *skb = nt_skb(nt);
	struct sock *sk = nt_sock(nt);
	struct nt_state was;

	skb_put_zero(skb, 10);
	skb_shinfo(skb)->flags |= SKBFL_SHARED_FRAG;
	was = nt_state(n, skb);
	KUNIT_EXPECT_EQ(test, nt_send_fault(sk, n, skb), -EFAULT);
	KUNIT_EXPECT_EQ(test, skb->len, 10);
	nt_expect_state(nt, was, n, skb);
	nt_flush(n);
	nt_expect_all_complete(nt);
}

static void nt_fails_when_linked(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *head = nt_notif(nt), *member = nt_notif(nt);
	struct nt_notif *n = nt_notif(nt);
	struct sk_buff *skb = nt_skb(nt), *second = nt_skb(nt);
	struct sock *sk = nt_sock(nt);
	struct nt_state was, head_was;

	KUNIT_ASSERT_EQ(test, nt_link(head, skb), 0);
	KUNIT_ASSERT_EQ(test, nt_link(member, skb), 0);
	was = nt_state(n, skb);
	head_was = nt_state(head, skb);
	KUNIT_EXPECT_EQ(test, nt_send_fault(sk, n, skb), -EFAULT);
	nt_expect_state(nt, was, n, skb);
	nt_expect_state(nt, head_was, head, skb);

	/* It is as free as before, and waits for nobody. */
	KUNIT_EXPECT_EQ(test, nt_link(n, second), 0);
	nt_flush(n);
	nt_sent(nt, second);
	nt_run(nt);
	KUNIT_EXPECT_EQ(test, n->completed, 1);
	KUNIT_EXPECT_EQ(test, nt->completions, 1);
	nt_flush(head);
	nt_flush(member);
	nt_sent(nt, skb);
	nt_expect_all_complete(nt);
}

/* No room there: the request goes on to the next skb without the chain. */
static void nt_full_when_linked(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *head = nt_notif(nt), *n = nt_notif(nt);
	struct sk_buff *skb = nt_skb(nt);
	struct sock *sk = nt_sock(nt);
	struct nt_state was;

	nt_fill_skb(nt, skb);
	KUNIT_ASSERT_EQ(test, nt_link(head, skb), 0);
	was = nt_state(n, skb);
	KUNIT_EXPECT_EQ(test, nt_send_page(sk, n, skb), -EMSGSIZE);
	nt_expect_state(nt, was, n, skb);
	nt_flush(n);
	nt_run(nt);
	KUNIT_EXPECT_EQ(test, n->completed, 1);
	nt_flush(head);
	nt_sent(nt, skb);
	nt_expect_all_complete(nt);
}

/* What lies in the skb already counts, also when more of it fails. */
static void nt_fails_on_its_own_skb(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *n = nt_notif(nt), *member = nt_notif(nt);
	struct sk_buff *skb = nt_skb(nt);
	struct sock *sk = nt_sock(nt);
	struct nt_state was;

	KUNIT_ASSERT_EQ(test, nt_link(n, skb), 0);
	KUNIT_ASSERT_EQ(test, nt_link(member, skb), 0);
	was = nt_state(n, skb);
	KUNIT_EXPECT_EQ(test, nt_send_fault(sk, n, skb), -EFAULT);
	nt_expect_state(nt, was, n, skb);
	was = nt_state(member, skb);
	KUNIT_EXPECT_EQ(test, nt_send_fault(sk, member, skb), -EEXIST);
	nt_expect_state(nt, was, member, skb);
	nt_flush(n);
	nt_flush(member);
	nt_expect_none_complete(nt);
	nt_sent(nt, skb);
	nt_expect_all_complete(nt);
}

/*
 * How long a chain may become.
 */

static struct nt_notif *nt_notif_bytes(struct nt_ctx *nt, u32 bytes)
{
	struct nt_notif *n = nt_notif(nt);

	n->nd->bytes = bytes;
	return n;
}

/* One that was refused begins a chain of its own. */
static void nt_expect_fresh_chain(struct nt_ctx *nt, struct nt_notif *n)
{
	struct nt_notif *next = nt_notif(nt);
	struct sk_buff *skb = nt_skb(nt);

	KUNIT_EXPECT_EQ(nt->test, nt_link(n, skb), 0);
	KUNIT_EXPECT_EQ(nt->test, nt_link(next, skb), 0);
	KUNIT_EXPECT_PTR_EQ(nt->test, next->nd->head, n->nd);
	nt_flush(next);
	nt_flush(n);
	nt_sent(nt, skb);
	nt_run(nt);
	KUNIT_EXPECT_EQ(nt->test, n->completed, 1);
	KUNIT_EXPECT_EQ(nt->test, next->completed, 1);
}

/* 512 KiB, and not a byte more. */
static void nt_bound_bytes(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *head = nt_notif_bytes(nt, SZ_512K - 1000);
	struct nt_notif *member = nt_notif_bytes(nt, 999);
	struct nt_notif *over = nt_notif_bytes(nt, 2);
	struct nt_notif *fits = nt_notif_bytes(nt, 1);
	struct nt_notif *late = nt_notif_bytes(nt, 1);
	struct sk_buff *skb = nt_skb(nt);

	KUNIT_ASSERT_EQ(test, nt_link(head, skb), 0);
	KUNIT_EXPECT_EQ(test, nt_link(member, skb), 0);
	nt_expect_refused(nt, over, skb);
	KUNIT_EXPECT_EQ(test, nt_link(fits, skb), 0);
	nt_expect_refused(nt, late, skb);
	nt_expect_fresh_chain(nt, over);
	nt_expect_fresh_chain(nt, late);

	nt_flush(head);
	nt_flush(member);
	nt_flush(fits);
	nt_sent(nt, skb);
	nt_expect_all_complete(nt);
}

/* A request that is too large for any chain has one of its own, alone. */
static void nt_bound_large_request(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *small = nt_notif_bytes(nt, 1);
	struct nt_notif *large = nt_notif_bytes(nt, INT_MAX);
	struct nt_notif *next = nt_notif_bytes(nt, INT_MAX);
	struct sk_buff *skb = nt_skb(nt), *second = nt_skb(nt);

	KUNIT_ASSERT_EQ(test, nt_link(small, skb), 0);
	nt_expect_refused(nt, large, skb);
	KUNIT_EXPECT_EQ(test, nt_link(large, second), 0);
	nt_expect_refused(nt, next, second);
	nt_flush(small);
	nt_flush(large);
	nt_flush(next);
	nt_sent(nt, skb);
	nt_sent(nt, second);
	nt_expect_all_complete(nt);
}

/* 65534 requests. */
static void nt_bound_requests(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *head = nt_notif(nt), *fits = nt_notif(nt);
	struct nt_notif *over = nt_notif(nt);
	struct sk_buff *skb = nt_skb(nt);

	KUNIT_ASSERT_EQ(test, nt_link(head, skb), 0);
	KUNIT_EXPECT_EQ(test, head->nd->chain_len, 1);
	head->nd->chain_len = 65533;
	KUNIT_EXPECT_EQ(test, nt_link(fits, skb), 0);
	nt_expect_refused(nt, over, skb);
	KUNIT_EXPECT_EQ(test, head->nd->chain_len, 65534);
	nt_expect_fresh_chain(nt, over);

	nt_flush(head);
	nt_flush(fits);
	nt_sent(nt, skb);
	nt_expect_all_complete(nt);
}

/* It is the chain that is bounded, wherever the next one is linked. */
static void nt_bound_behind_a_member(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *head = nt_notif_bytes(nt, 500000);
	struct nt_notif *member = nt_notif_bytes(nt, 20000);
	struct nt_notif *over = nt_notif_bytes(nt, 20000);
	struct sk_buff *skb = nt_skb(nt), *second = nt_skb(nt);

	KUNIT_ASSERT_EQ(test, nt_link(head, skb), 0);
	KUNIT_ASSERT_EQ(test, nt_link(member, skb), 0);
	KUNIT_ASSERT_EQ(test, nt_link(member, second), 0);
	nt_expect_refused(nt, over, second);
	nt_expect_fresh_chain(nt, over);

	nt_flush(head);
	nt_flush(member);
	nt_sent(nt, skb);
	nt_sent(nt, second);
	nt_expect_all_complete(nt);
}

/* What failed is not counted. */
static void nt_bound_after_a_failure(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_notif *head = nt_notif_bytes(nt, 300000);
	struct nt_notif *fails = nt_notif_bytes(nt, 200000);
	struct nt_notif *fits = nt_notif_bytes(nt, 200000);
	struct nt_notif *over = nt_notif_bytes(nt, 200000);
	struct sk_buff *skb = nt_skb(nt);
	struct sock *sk = nt_sock(nt);

	KUNIT_ASSERT_EQ(test, nt_link(head, skb), 0);
	KUNIT_EXPECT_EQ(test, nt_send_fault(sk, fails, skb), -EFAULT);
	KUNIT_EXPECT_EQ(test, head->nd->chain_len, 1);
	KUNIT_EXPECT_EQ(test, nt_link(fits, skb), 0);
	KUNIT_EXPECT_EQ(test, head->nd->chain_len, 2);
	nt_expect_refused(nt, over, skb);

	nt_flush(head);
	nt_flush(fails);
	nt_flush(fits);
	nt_flush(over);
	nt_sent(nt, skb);
	nt_expect_all_complete(nt);
}

/*
 * A stream of requests of 64 KiB, each beginning on the last skb of the one
 * before: every eighth finds the chain full and begins a new one, and a chain
 * completes when its own skbs are gone, whatever comes after it.
 */
static void nt_stream_is_cut(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct sk_buff *last = NULL, *skb;
	struct nt_notif *n;
	unsigned int i;
	int ret;

	for (i = 0; i < 40; i++) {
		n = nt_notif_bytes(nt, SZ_64K);
		if (last) {
			ret = nt_link(n, last);
			KUNIT_EXPECT_EQ_MSG(test, ret, i % 8 ? 0 : -EEXIST, "%u", i);
		}
		skb = nt_skb(nt);
		KUNIT_ASSERT_EQ(test, nt_link(n, skb), 0);
		KUNIT_EXPECT_PTR_EQ_MSG(test, n->nd->head, nt->notif[i / 8 * 8].nd,
					"%u", i);
		nt_flush(n);
		if (last)
			nt_sent(nt, last);
		last = skb;
		nt_run(nt);
		KUNIT_EXPECT_EQ_MSG(test, nt->completions, i / 8 * 8, "%u", i);
	}
	nt_sent(nt, last);
	nt_expect_all_complete(nt);
	KUNIT_EXPECT_EQ(test, nt->works, 5);
}

/*
 * Requests that are prepared and issued.
 */

static int nt_wire_sendmsg(struct socket *sock, struct msghdr *msg, size_t len)
{
	struct nt_ctx *nt = kunit_get_current_test()->priv;
	struct nt_wire *wire = &nt->wire;

	wire->calls++;
	wire->flags = msg->msg_flags;
	wire->uarg = msg->msg_ubuf;
	if (wire->takes > 0)
		iov_iter_advance(&msg->msg_iter, wire->takes);
	return wire->takes;
}

static const struct proto_ops nt_wire_ops = {
	.family = PF_INET,
	.sendmsg = nt_wire_sendmsg,
};

static struct nt_wire *nt_wire(struct nt_ctx *nt)
{
	struct nt_wire *wire = &nt->wire;
	struct socket *sock;
	struct file *file;

	KUNIT_ASSERT_EQ(nt->test, sock_create_kern(&init_net, AF_INET, SOCK_STREAM,
						   IPPROTO_TCP, &sock), 0);
	/* The socket belongs to the file, or is gone. */
	file = sock_alloc_file(sock, O_RDWR, NULL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(nt->test, file);
	wire->tcp = sock->ops;
	wire->sock = sock;
	wire->file = file;
	sock->ops = &nt_wire_ops;
	wire->takes = NT_SEND;
	return wire;
}

KUNIT_DEFINE_ACTION_WRAPPER(nt_kfree, kfree, const void *);

/* A request of the first ring that sends NT_SEND bytes of a program. */
static struct io_kiocb *nt_prep(struct nt_ctx *nt, unsigned int flags)
{
	const struct io_uring_sqe sqe = {
		.opcode = IORING_OP_SEND_ZC,
		.ioprio = flags | IORING_SEND_ZC_REPORT_USAGE,
		.addr = PAGE_SIZE,
		.len = NT_SEND,
		.msg_flags = MSG_WAITALL,
	};
	struct io_ring_ctx *ctx = nt->ring[0];
	struct io_kiocb *req;
	int ret;

	ctx->netmsg_cache.elem_size = sizeof(struct io_async_msghdr);
	ctx->netmsg_cache.init_clear = offsetof(struct io_async_msghdr, clear);
	req = kunit_kzalloc(nt->test, sizeof(*req), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(nt->test, req);
	memset(&req->cmd, NT_RUBBISH, sizeof(req->cmd));
	req->ctx = ctx;
	req->opcode = sqe.opcode;
	req->file = nt->wire.file;
	nt_spare(nt, ctx);

	mutex_lock(&ctx->uring_lock);
	current->io_uring = nt->task[0];
	ret = io_send_zc_prep(req, &sqe);
	current->io_uring = NULL;
	mutex_unlock(&ctx->uring_lock);
	nt->notif[nt->notifs].req->cqe.user_data = nt->notifs;
	nt->notifs++;
	/* The cache of the ring takes nothing. */
	if (req->async_data)
		KUNIT_ASSERT_EQ(nt->test, kunit_add_action_or_reset(nt->test, nt_kfree,
								    req->async_data), 0);
	KUNIT_ASSERT_EQ(nt->test, ret, 0);
	return req;
}

static int nt_issue(struct io_kiocb *req, unsigned int issue_flags)
{
	int ret;

	mutex_lock(&req->ctx->uring_lock);
	ret = io_sendmsg_zc(req, issue_flags);
	mutex_unlock(&req->ctx->uring_lock);
	return ret;
}

/* All was sent, and the notification has come. */
static void nt_expect_sent(struct nt_ctx *nt, struct io_kiocb *req)
{
	KUNIT_EXPECT_EQ(nt->test, req->cqe.res, NT_SEND);
	KUNIT_EXPECT_EQ(nt->test, req->cqe.flags, IORING_CQE_F_MORE);
	nt_expect_all_complete(nt);
}

/* The ring is charged for memory, of which the user may have so many pages. */
static void nt_may_lock(struct nt_ctx *nt, unsigned long pages)
{
	nt->ring[0]->user = &nt->user;
	atomic_long_set(&nt->user.locked_vm, (rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT) - pages);
}

static long nt_locked(struct nt_ctx *nt)
{
	return atomic_long_read(&nt->user.locked_vm) - (rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT);
}

/* A chain counts the bytes of the whole request, also if some are sent later. */
static void nt_send_counts(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_wire *wire = nt_wire(nt);
	struct io_kiocb *req = nt_prep(nt, 0);
	struct nt_notif *n = &nt->notif[0];

	wire->takes = NT_PART;
	KUNIT_EXPECT_EQ(test, nt_issue(req, 0), -EAGAIN);
	KUNIT_EXPECT_EQ(test, n->nd->bytes, NT_SEND);
	KUNIT_EXPECT_NE(test, wire->flags & MSG_ZEROCOPY, 0);
	KUNIT_EXPECT_PTR_EQ(test, wire->uarg, &n->nd->uarg);
	nt_expect_none_complete(nt);

	wire->takes = NT_SEND - NT_PART;
	KUNIT_EXPECT_EQ(test, nt_issue(req, 0), IOU_COMPLETE);
	KUNIT_EXPECT_EQ(test, n->nd->bytes, NT_SEND);
	KUNIT_EXPECT_PTR_EQ(test, wire->uarg, &n->nd->uarg);
	KUNIT_EXPECT_EQ(test, wire->calls, 2);
	nt_expect_sent(nt, req);
}

/* Two pages more than those that lie in the memory are charged, and go back. */
static void nt_send_pinned(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_wire *wire = nt_wire(nt);
	struct io_kiocb *req;

	nt_may_lock(nt, 2);
	req = nt_prep(nt, 0);
	KUNIT_EXPECT_EQ(test, nt_locked(nt), 0);
	KUNIT_EXPECT_EQ(test, nt_issue(req, 0), IOU_COMPLETE);
	KUNIT_EXPECT_NE(test, wire->flags & MSG_ZEROCOPY, 0);
	KUNIT_EXPECT_PTR_EQ(test, wire->uarg, &nt->notif[0].nd->uarg);
	nt_expect_sent(nt, req);
	KUNIT_EXPECT_EQ(test, nt_locked(nt), -2);
}

/* One page too few: the request is one that copies, to the end. */
static void nt_send_not_pinned(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_wire *wire = nt_wire(nt);
	struct io_kiocb *req;

	nt_may_lock(nt, 1);
	req = nt_prep(nt, 0);
	KUNIT_EXPECT_EQ(test, nt_locked(nt), -1);
	wire->takes = NT_PART;
	KUNIT_EXPECT_EQ(test, nt_issue(req, 0), -EAGAIN);
	KUNIT_EXPECT_EQ(test, wire->flags & MSG_ZEROCOPY, 0);
	KUNIT_EXPECT_NULL(test, wire->uarg);

	nt_may_lock(nt, 10);
	wire->takes = NT_SEND - NT_PART;
	KUNIT_EXPECT_EQ(test, nt_issue(req, 0), IOU_COMPLETE);
	KUNIT_EXPECT_EQ(test, wire->flags & MSG_ZEROCOPY, 0);
	KUNIT_EXPECT_NULL(test, wire->uarg);
	nt_expect_sent(nt, req);
	KUNIT_EXPECT_TRUE(test, nt_says_copied(&nt->notif[0]));
	KUNIT_EXPECT_EQ(test, nt_locked(nt), -10);
}

/* In a worker, the notification comes with the end of the request. */
static void nt_send_not_pinned_in_a_worker(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_wire *wire = nt_wire(nt);
	struct io_kiocb *req;

	nt_may_lock(nt, 0);
	req = nt_prep(nt, 0);
	KUNIT_EXPECT_EQ(test, nt_issue(req, IO_URING_F_UNLOCKED), IOU_COMPLETE);
	KUNIT_EXPECT_EQ(test, wire->flags & MSG_ZEROCOPY, 0);
	nt_expect_none_complete(nt);
	mutex_lock(&req->ctx->uring_lock);
	io_send_zc_cleanup(req);
	mutex_unlock(&req->ctx->uring_lock);
	nt_expect_sent(nt, req);
	KUNIT_EXPECT_TRUE(test, nt_says_copied(&nt->notif[0]));
}

/* A registered buffer is charged once, when it is registered. */
static void nt_send_registered(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_wire *wire = nt_wire(nt);
	struct io_async_msghdr *kmsg;
	struct io_kiocb *req;
	struct bio_vec bvec;

	nt_may_lock(nt, 0);
	req = nt_prep(nt, IORING_RECVSEND_FIXED_BUF);
	KUNIT_EXPECT_NE(test, req->flags & REQ_F_IMPORT_BUFFER, 0);
	req->flags &= ~REQ_F_IMPORT_BUFFER;
	kmsg = req->async_data;
	bvec_set_page(&bvec, ZERO_PAGE(0), NT_SEND, 0);
	iov_iter_bvec(&kmsg->msg.msg_iter, ITER_SOURCE, &bvec, 1, NT_SEND);
	KUNIT_EXPECT_EQ(test, nt_issue(req, 0), IOU_COMPLETE);
	KUNIT_EXPECT_NE(test, wire->flags & MSG_ZEROCOPY, 0);
	KUNIT_EXPECT_PTR_EQ(test, wire->uarg, &nt->notif[0].nd->uarg);
	nt_expect_sent(nt, req);
	KUNIT_EXPECT_EQ(test, nt_locked(nt), 0);
}

/* Cancelled for another one's failure: it says that its notification follows. */
static void nt_send_cancelled(struct kunit *test)
{
	struct nt_ctx *nt = test->priv;
	struct nt_wire *wire = nt_wire(nt);
	struct io_ring_ctx *ctx = nt->ring[0];
	struct io_kiocb *req = nt_prep(nt, 0);
	struct io_kiocb *failed;

	failed = kunit_kzalloc(test, sizeof(*failed), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, failed);
	failed->ctx = ctx;
	failed->opcode = IORING_OP_NOP;
	failed->flags = REQ_F_FAIL | REQ_F_LINK;
	failed->link = req;
	spin_lock_init(&ctx->completion_lock);
	spin_lock(&ctx->completion_lock);
	io_disarm_next(failed);
	spin_unlock(&ctx->completion_lock);
	KUNIT_EXPECT_EQ(test, nt_run_work(ctx), 1);
	KUNIT_EXPECT_EQ(test, req->cqe.res, -ECANCELED);
	KUNIT_EXPECT_EQ(test, req->cqe.flags, IORING_CQE_F_MORE);
	KUNIT_EXPECT_EQ(test, wire->calls, 0);

	/* What the ring does with it then. */
	INIT_WQ_LIST(&ctx->submit_state.compl_reqs);
	mutex_lock(&ctx->uring_lock);
	io_send_zc_cleanup(req);
	mutex_unlock(&ctx->uring_lock);
	nt_expect_all_complete(nt);
	KUNIT_EXPECT_TRUE(test, nt_says_copied(&nt->notif[0]));
}

static struct kunit_case nt_cases[] = {
	KUNIT_CASE(nt_bind),
	KUNIT_CASE(nt_never_sent),
	KUNIT_CASE(nt_many_skbs),
	KUNIT_CASE(nt_self),
	KUNIT_CASE(nt_linked),
	KUNIT_CASE(nt_linked_flushed_last),
	KUNIT_CASE(nt_linked_twice),
	KUNIT_CASE(nt_leader),
	KUNIT_CASE(nt_with_skb_of_its_own),
	KUNIT_CASE(nt_member_leads),
	KUNIT_CASE(nt_foreign_provider),
	KUNIT_CASE(nt_foreign_ring),
	KUNIT_CASE(nt_foreign_task),
	KUNIT_CASE(nt_foreign_ring_behind_a_member),
	KUNIT_CASE(nt_chain_in_every_order),
	KUNIT_CASE(nt_straddling_chain_in_every_order),
	KUNIT_CASE(nt_locked_memory),
	KUNIT_CASE(nt_wake_counts_down),
	KUNIT_CASE(nt_wake_for_a_chain),
	KUNIT_CASE(nt_wake_a_sleeper),
	KUNIT_CASE(nt_usage_alone),
	KUNIT_CASE(nt_usage_not_asked_for),
	KUNIT_CASE(nt_usage_linked_sent),
	KUNIT_CASE(nt_usage_linked_sent_flushed_last),
	KUNIT_CASE(nt_usage_linked_copied),
	KUNIT_CASE(nt_usage_linked_copied_flushed_last),
	KUNIT_CASE(nt_usage_of_a_silent_head),
	KUNIT_CASE(nt_usage_straddling_sent),
	KUNIT_CASE(nt_usage_straddling_first_copied),
	KUNIT_CASE(nt_usage_straddling_second_copied),
	KUNIT_CASE(nt_usage_straddling_copied),
	KUNIT_CASE(nt_usage_straddling_flushed_last),
	KUNIT_CASE(nt_usage_straddling_second_flushed_last),
	KUNIT_CASE(nt_wrong_ring),
	KUNIT_CASE(nt_fails_on_an_empty_skb),
	KUNIT_CASE(nt_fails_on_an_skb_of_others),
	KUNIT_CASE(nt_fails_when_linked),
	KUNIT_CASE(nt_full_when_linked),
	KUNIT_CASE(nt_fails_on_its_own_skb),
	KUNIT_CASE(nt_bound_bytes),
	KUNIT_CASE(nt_bound_large_request),
	KUNIT_CASE(nt_bound_requests),
	KUNIT_CASE(nt_bound_behind_a_member),
	KUNIT_CASE(nt_bound_after_a_failure),
	KUNIT_CASE(nt_stream_is_cut),
	KUNIT_CASE(nt_send_counts),
	KUNIT_CASE(nt_send_pinned),
	KUNIT_CASE(nt_send_not_pinned),
	KUNIT_CASE(nt_send_not_pinned_in_a_worker),
	KUNIT_CASE(nt_send_registered),
	KUNIT_CASE(nt_send_cancelled),
	KUNIT_CASE_PARAM(nt_random, nt_seeds_gen_params),
	{}
};

static struct kunit_suite nt_suite = {
	.name = "io_uring_notif",
	.init = nt_init,
	.exit = nt_exit,
	.test_cases = nt_cases,
};

kunit_test_suite(nt_suite);

MODULE_DESCRIPTION("KUnit tests for the notifications of io_uring's zero-copy sends");
MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");
MODULE_LICENSE("GPL");
