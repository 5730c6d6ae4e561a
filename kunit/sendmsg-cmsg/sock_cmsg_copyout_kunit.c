// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for control messages that sendmsg() writes: which ones are
 * found, where in user memory they lie, and what the zero-copy notification
 * takes from the error queue of a socket and leaves there, also when it cannot
 * be written.
 *
 * The error queue is that of a real UDP socket, which is never connected and
 * never sends. Notifications come from the kernel's own completion or, where
 * many are needed, are made by hand like the other entries. Each call is held
 * against the queue as it was before: cc_model().
 *
 * A queue is written as a string, a letter an entry:
 *	Z  zero-copy notification
 *	C  the same, of a send that was copied
 *	H  zero-copy notification made by hand
 *	T  transmit timestamp
 *	L  local error, X  transmit time error
 *	E  ICMP error, 6  ICMPv6 error
 */
#include <kunit/test.h>
#include <linux/anon_inodes.h>
#include <linux/errqueue.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/net.h>
#include <linux/skbuff.h>
#include <linux/socket.h>
#include <linux/uaccess.h>
#include <net/cmsg_copyout.h>
#include <net/net_namespace.h>
#include <net/sock.h>

/* User memory of a case, and what it is filled with. */
#define CC_USER		(2 * PAGE_SIZE)
#define CC_FILL		0xaa

/* Room for control messages in the kernel. */
#define CC_CONTROL	8192

/* More entries than a case queues. */
#define CC_ENTRIES	10300

/* More entries than the walk of the error queue passes. */
#define CC_PASSED	128

/* An error that no entry has. */
#define CC_NO_ERRNO	ENOLINK

/* Numbers of notifications differ by this much, so that no two make a range. */
#define CC_ID_STEP	10

/* The header of a control message in a 32-bit program, and its alignment. */
#define CC_COMPAT_HDR	12
#define CC_COMPAT_ALIGN	4

struct cc_entry {
	const struct sk_buff *skb;
	struct sock_extended_err ee;
};

struct cc_ctx {
	struct kunit *test;
	struct socket *sock;
	struct sock *sk;
	void (*error_report)(struct sock *sk);
	unsigned int reports;	/* calls of sk_error_report() */
	u32 id;			/* of the next notification */
	int error;		/* of the next error */

	/* The control messages, as they are copied into the kernel. */
	u8 *control;
	size_t len;
	size_t at[2];		/* where the next one begins: native, compat */
	size_t payload[2];	/* where that of the first of ours is */
	size_t payload_len;
	struct cmsg_copyout out;

	/* User memory, and where in it the control messages are. */
	unsigned long user;
	unsigned long start;
	u8 *image;		/* what it should be */
	u8 *buf;

	/* The queue before the last call, and what that was to do. */
	struct cc_entry *before;
	unsigned int nr_before;
	struct cc_entry *left;
	unsigned int nr_left;
	struct cc_entry taken[ZC_NOTIFICATION_MAX];
	unsigned int nr_taken;
	bool icmp;		/* an ICMP error became the first */

	/* What happens when the elements are written for the first time. */
	struct file *file;
	struct page *pages[2];
	void (*meanwhile)(struct cc_ctx *ctx);
	bool first_gone;
	bool second_gone;
	int met_err;		/* sk_err at that time */
	bool broken;		/* it could not be made to happen */
	struct sk_buff *read;	/* what was read from the error queue */
	struct cmsg_copyout other;
	unsigned long other_user;
};

/* ---- the socket and its error queue ---- */

static void cc_error_report(struct sock *sk)
{
	struct cc_ctx *ctx = sk->sk_user_data;

	ctx->reports++;
}

static int cc_init(struct kunit *test)
{
	struct cc_ctx *ctx = kunit_kzalloc(test, sizeof(*ctx), GFP_KERNEL);
	int err;

	if (!ctx)
		return -ENOMEM;

	ctx->test = test;
	ctx->error = 100;
	ctx->control = kunit_kzalloc(test, CC_CONTROL, GFP_KERNEL);
	ctx->image = kunit_kzalloc(test, CC_USER, GFP_KERNEL);
	ctx->buf = kunit_kzalloc(test, CC_USER, GFP_KERNEL);
	ctx->before = kunit_kcalloc(test, CC_ENTRIES, sizeof(*ctx->before),
				    GFP_KERNEL);
	ctx->left = kunit_kcalloc(test, CC_ENTRIES, sizeof(*ctx->left),
				  GFP_KERNEL);
	if (!ctx->control || !ctx->image || !ctx->buf || !ctx->before ||
	    !ctx->left)
		return -ENOMEM;

	err = sock_create_kern(&init_net, AF_INET, SOCK_DGRAM, IPPROTO_UDP,
			       &ctx->sock);
	if (err)
		return err;

	ctx->sk = ctx->sock->sk;
	ctx->sk->sk_user_data = ctx;
	ctx->error_report = ctx->sk->sk_error_report;
	ctx->sk->sk_error_report = cc_error_report;
	ctx->sk->sk_rcvbuf = INT_MAX / 2;
	sock_set_flag(ctx->sk, SOCK_ZEROCOPY);
	test->priv = ctx;

	return 0;
}

/* Empty the queue; nothing of it may be left anywhere else. */
static void cc_drain(struct cc_ctx *ctx)
{
	struct sk_buff *skb;

	while ((skb = skb_dequeue(&ctx->sk->sk_error_queue)))
		consume_skb(skb);
	KUNIT_EXPECT_EQ_MSG(ctx->test, atomic_read(&ctx->sk->sk_omem_alloc), 0,
			    "notifications are leaked");
	KUNIT_EXPECT_EQ_MSG(ctx->test, sk_rmem_alloc_get(ctx->sk), 0,
			    "entries of the error queue are leaked");
}

static void cc_exit(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;
	int i;

	if (!ctx)
		return;

	cc_drain(ctx);
	ctx->sk->sk_user_data = NULL;
	ctx->sk->sk_error_report = ctx->error_report;
	sock_release(ctx->sock);
	if (!IS_ERR_OR_NULL(ctx->file))
		fput(ctx->file);
	for (i = 0; i < ARRAY_SIZE(ctx->pages); i++)
		if (ctx->pages[i])
			put_page(ctx->pages[i]);
}

/* A call with MSG_ZEROCOPY, which may be the next one of a notification. */
static struct ubuf_info *cc_call(struct cc_ctx *ctx, struct ubuf_info *uarg)
{
	return msg_zerocopy_realloc(ctx->sk, 1, uarg, false);
}

/*
 * A notification by the kernel's own way: what @calls calls sent from number
 * @id on is complete. It becomes an entry or prolongs the last one.
 */
static bool cc_complete(struct cc_ctx *ctx, u32 id, u16 calls, bool copied)
{
	struct ubuf_info *uarg;

	atomic_set(&ctx->sk->sk_zckey, id);
	uarg = cc_call(ctx, NULL);
	if (!uarg)
		return false;

	uarg_to_msgzc(uarg)->len = calls;
	if (copied)
		uarg_to_msgzc(uarg)->zerocopy = 0;
	net_zcopy_put(uarg);

	return true;
}

static bool cc_make(struct cc_ctx *ctx, const struct sock_extended_err *ee)
{
	struct sk_buff *skb = alloc_skb(0, GFP_KERNEL);

	if (!skb)
		return false;

	memset(skb->cb, 0, sizeof(skb->cb));
	SKB_EXT_ERR(skb)->ee = *ee;
	if (sock_queue_err_skb(ctx->sk, skb)) {
		kfree_skb(skb);
		return false;
	}

	return true;
}

static bool cc_queue_entry(struct cc_ctx *ctx, char kind)
{
	struct sock_extended_err ee = {};
	u32 id = ctx->id;

	switch (kind) {
	case 'Z':
	case 'C':
		ctx->id += CC_ID_STEP;
		return cc_complete(ctx, id, 1, kind == 'C');
	case 'H':
		ctx->id += CC_ID_STEP;
		ee.ee_origin = SO_EE_ORIGIN_ZEROCOPY;
		ee.ee_info = id;
		ee.ee_data = id;
		break;
	case 'T':
		ee.ee_origin = SO_EE_ORIGIN_TIMESTAMPING;
		ee.ee_errno = ENOMSG;
		ee.ee_data = id;
		break;
	case 'L':
		ee.ee_origin = SO_EE_ORIGIN_LOCAL;
		ee.ee_errno = EMSGSIZE;
		break;
	case 'X':
		ee.ee_origin = SO_EE_ORIGIN_TXTIME;
		ee.ee_errno = ECANCELED;
		break;
	case 'E':
		ee.ee_origin = SO_EE_ORIGIN_ICMP;
		ee.ee_errno = ctx->error++;
		break;
	case '6':
		ee.ee_origin = SO_EE_ORIGIN_ICMP6;
		ee.ee_errno = ctx->error++;
		break;
	default:
		return false;
	}

	return cc_make(ctx, &ee);
}

static bool cc_try_queue(struct cc_ctx *ctx, const char *queue)
{
	while (*queue)
		if (!cc_queue_entry(ctx, *queue++))
			return false;

	return true;
}

static void cc_queue(struct cc_ctx *ctx, const char *queue)
{
	KUNIT_ASSERT_TRUE(ctx->test, cc_try_queue(ctx, queue));
}

static void cc_queue_many(struct cc_ctx *ctx, char kind, unsigned int n)
{
	const char queue[2] = { kind };

	while (n--)
		cc_queue(ctx, queue);
}

/* ---- user memory ---- */

static unsigned long cc_mmap(struct kunit *test, struct file *file,
			     unsigned long prot, unsigned long flags)
{
	unsigned long addr;

	addr = kunit_vm_mmap(test, file, 0, CC_USER, prot, flags, 0);
	KUNIT_ASSERT_NE_MSG(test, addr, 0, "no user memory");
	KUNIT_ASSERT_LT_MSG(test, addr, TASK_SIZE, "no user memory");

	return addr;
}

static void cc_fill(struct cc_ctx *ctx)
{
	memset(ctx->image, CC_FILL, CC_USER);
	KUNIT_ASSERT_EQ(ctx->test, copy_to_user((void __user *)ctx->user,
						ctx->image, CC_USER), 0);
}

/* Memory that can be written, filled, with the control messages at its start. */
static void cc_user(struct cc_ctx *ctx)
{
	ctx->user = cc_mmap(ctx->test, NULL, PROT_READ | PROT_WRITE,
			    MAP_ANONYMOUS | MAP_PRIVATE);
	ctx->start = ctx->user;
	cc_fill(ctx);
}

/* The same up to a page border, nothing behind. */
static void cc_user_one_page(struct cc_ctx *ctx)
{
	cc_user(ctx);
	KUNIT_ASSERT_EQ(ctx->test, vm_munmap(ctx->user + PAGE_SIZE, PAGE_SIZE),
			0);
}

/* So many bytes of the payload are in front of the border of the first page. */
static void cc_start_at_border(struct cc_ctx *ctx, size_t fits)
{
	ctx->start = ctx->user + PAGE_SIZE - fits - sizeof(struct cmsghdr);
}

/* The first @len bytes of it are as in the image. */
static void cc_check_user(struct cc_ctx *ctx, size_t len)
{
	size_t i = 0;

	KUNIT_ASSERT_EQ(ctx->test, copy_from_user(ctx->buf,
						  (void __user *)ctx->user,
						  len), 0);
	while (i < len && ctx->buf[i] == ctx->image[i])
		i++;
	if (i < len)
		KUNIT_FAIL(ctx->test, "byte %zu from the start is %02x, not %02x",
			   i - (size_t)(ctx->start - ctx->user), ctx->buf[i],
			   ctx->image[i]);
}

/* A __u32 in user memory. */
static void cc_check_word(struct cc_ctx *ctx, unsigned long addr, u32 word)
{
	u32 is = ~word;

	KUNIT_EXPECT_EQ(ctx->test, get_user(is, (u32 __user *)addr), 0);
	KUNIT_EXPECT_EQ(ctx->test, is, word);
}

/*
 * Two pages that say when they are written: cc_ctx.meanwhile is called when
 * the second one is touched, with nothing but that page's fault going on. The
 * first page can go at that moment, and the second can turn out to be missing.
 */
static vm_fault_t cc_fault(struct vm_fault *vmf)
{
	struct cc_ctx *ctx = vmf->vma->vm_private_data;
	void (*meanwhile)(struct cc_ctx *ctx) = ctx->meanwhile;

	if (vmf->pgoff >= ARRAY_SIZE(ctx->pages))
		return VM_FAULT_SIGBUS;

	if (vmf->pgoff == 1 && meanwhile) {
		ctx->meanwhile = NULL;
		ctx->met_err = ctx->sk->sk_err;
		meanwhile(ctx);
	}
	if (vmf->pgoff == 0 ? ctx->first_gone : ctx->second_gone)
		return VM_FAULT_SIGBUS;

	vmf->page = ctx->pages[vmf->pgoff];
	get_page(vmf->page);

	return 0;
}

static const struct vm_operations_struct cc_vm_ops = {
	.fault = cc_fault,
};

static int cc_file_mmap(struct file *file, struct vm_area_struct *vma)
{
	vma->vm_ops = &cc_vm_ops;
	vma->vm_private_data = file->private_data;

	return 0;
}

static const struct file_operations cc_fops = {
	.owner = THIS_MODULE,
	.mmap = cc_file_mmap,
};

/* Outlives the case: its memory goes when its thread does, or later. */
static struct address_space cc_mapping;

/* The size is the last of the first page, the elements are in the second. */
static void cc_user_watched(struct cc_ctx *ctx,
			    void (*meanwhile)(struct cc_ctx *ctx))
{
	struct kunit *test = ctx->test;
	int i;

	for (i = 0; i < ARRAY_SIZE(ctx->pages); i++) {
		ctx->pages[i] = alloc_page(GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, ctx->pages[i]);
		memset(page_address(ctx->pages[i]), CC_FILL, PAGE_SIZE);
	}
	memset(ctx->image, CC_FILL, CC_USER);

	ctx->file = anon_inode_getfile("[cmsg_copyout]", &cc_fops, ctx, O_RDWR);
	KUNIT_ASSERT_FALSE(test, IS_ERR(ctx->file));
	if (!cc_mapping.host) {
		address_space_init_once(&cc_mapping);
		cc_mapping.host = file_inode(ctx->file);
	}
	ctx->file->f_mapping = &cc_mapping;
	ctx->user = cc_mmap(test, ctx->file, PROT_READ | PROT_WRITE, MAP_SHARED);

	cc_start_at_border(ctx, sizeof(struct zc_info));
	ctx->meanwhile = meanwhile;
}

/* ---- control messages ---- */

struct cc_part {
	int level;
	int type;
	u32 size;		/* what the payload begins with */
	bool sized;		/* it is as long as that says */
	size_t len;		/* of the payload otherwise */
	bool bad;		/* cmsg_len is given */
	size_t cmsg_len;
};

#define ZC_BYTES(_size, _len)						\
	{ .level = SOL_SOCKET, .type = SCM_ZC_NOTIFICATION,		\
	  .size = (_size), .len = (_len) }
#define ZC(_size)							\
	{ .level = SOL_SOCKET, .type = SCM_ZC_NOTIFICATION,		\
	  .size = (_size), .sized = true }
#define OTHER(_level, _type, _len)					\
	{ .level = (_level), .type = (_type), .size = 1, .len = (_len) }
#define BAD(_cmsg_len)							\
	{ .level = SOL_SOCKET, .type = SCM_ZC_NOTIFICATION,		\
	  .len = sizeof(struct zc_info), .bad = true,			\
	  .cmsg_len = (_cmsg_len) }

static bool cc_ours(const struct cc_part *part)
{
	return part->level == SOL_SOCKET && part->type == SCM_ZC_NOTIFICATION;
}

static void cc_no_control(struct cc_ctx *ctx)
{
	ctx->len = 0;
	memset(ctx->at, 0, sizeof(ctx->at));
	memset(ctx->payload, 0, sizeof(ctx->payload));
	ctx->payload_len = 0;
}

static void cc_add(struct cc_ctx *ctx, const struct cc_part *part)
{
	struct cmsghdr *cmsg = (struct cmsghdr *)(ctx->control + ctx->len);
	size_t len = part->len;

	if (part->sized)
		len = sizeof(struct zc_info) +
		      part->size * sizeof(struct zc_info_elem);
	KUNIT_ASSERT_LE(ctx->test, ctx->len + CMSG_SPACE(len), CC_CONTROL);
	memset(cmsg, 0x11, CMSG_SPACE(len));
	cmsg->cmsg_len = part->bad ? part->cmsg_len : CMSG_LEN(len);
	cmsg->cmsg_level = part->level;
	cmsg->cmsg_type = part->type;
	memcpy(CMSG_DATA(cmsg), &part->size, min(len, sizeof(part->size)));

	if (cc_ours(part) && !ctx->payload[0]) {
		ctx->payload[0] = ctx->at[0] + sizeof(struct cmsghdr);
		ctx->payload[1] = ctx->at[1] + CC_COMPAT_HDR;
		ctx->payload_len = len;
	}
	ctx->len += CMSG_SPACE(len);
	ctx->at[0] += CMSG_SPACE(len);
	ctx->at[1] += CC_COMPAT_HDR + ALIGN(len, CC_COMPAT_ALIGN);
}

static int cc_parse_msg(struct cc_ctx *ctx, void __user *control, bool compat)
{
	struct msghdr msg = {
		.msg_control = ctx->control,
		.msg_controllen = ctx->len,
	};

	memset(&ctx->out, 0x5a, sizeof(ctx->out));

	return cmsg_copyout_parse(ctx->sk, &msg, control, compat, &ctx->out);
}

/* One control message of ours, with room for @room, that is all. */
static void cc_ask(struct cc_ctx *ctx, u32 room)
{
	const struct cc_part part = ZC(room);

	cc_no_control(ctx);
	cc_add(ctx, &part);
	KUNIT_ASSERT_EQ(ctx->test, cc_parse_msg(ctx, (void __user *)ctx->start,
						false), 0);
	KUNIT_ASSERT_EQ(ctx->test, ctx->out.found,
			BIT(CMSG_COPYOUT_ZC_NOTIFICATION));
}

/* ---- what a call is to do, and what it did ---- */

static bool cc_is_icmp(const struct cc_entry *entry)
{
	return entry->ee.ee_origin == SO_EE_ORIGIN_ICMP ||
	       entry->ee.ee_origin == SO_EE_ORIGIN_ICMP6;
}

/* Remember the queue, and tell what of it a call with room for @room takes. */
static void cc_model(struct cc_ctx *ctx, u32 room)
{
	unsigned int max = min(room, ZC_NOTIFICATION_MAX), passed = 0, i;
	struct sk_buff *skb;
	bool end = false;

	ctx->nr_before = 0;
	skb_queue_walk(&ctx->sk->sk_error_queue, skb) {
		struct cc_entry *entry = &ctx->before[ctx->nr_before++];

		KUNIT_ASSERT_LE(ctx->test, ctx->nr_before, CC_ENTRIES);
		entry->skb = skb;
		entry->ee = SKB_EXT_ERR(skb)->ee;
	}

	ctx->nr_left = 0;
	ctx->nr_taken = 0;
	for (i = 0; i < ctx->nr_before; i++) {
		const struct cc_entry *entry = &ctx->before[i];

		if (ctx->nr_taken == max)
			end = true;
		if (!end && entry->ee.ee_origin == SO_EE_ORIGIN_ZEROCOPY) {
			ctx->taken[ctx->nr_taken++] = *entry;
			continue;
		}
		if (passed++ == CC_PASSED)
			end = true;
		ctx->left[ctx->nr_left++] = *entry;
	}
	ctx->icmp = ctx->nr_left && ctx->left[0].skb != ctx->before[0].skb &&
		    cc_is_icmp(&ctx->left[0]);
}

/* The queue goes on with these entries, from entry @from on. */
static void cc_check_queue(struct cc_ctx *ctx, unsigned int from,
			   const struct cc_entry *entries, unsigned int nr)
{
	struct sk_buff_head *q = &ctx->sk->sk_error_queue;
	struct sk_buff *skb;
	unsigned int i = 0;

	skb_queue_walk(q, skb) {
		if (i < from) {
			i++;
			continue;
		}
		if (i - from == nr)
			break;
		if (skb != entries[i - from].skb ||
		    memcmp(&SKB_EXT_ERR(skb)->ee, &entries[i - from].ee,
			   sizeof(struct sock_extended_err))) {
			KUNIT_FAIL(ctx->test,
				   "entry %u is not what it should be (origin %u, info %u)",
				   i, SKB_EXT_ERR(skb)->ee.ee_origin,
				   SKB_EXT_ERR(skb)->ee.ee_info);
			return;
		}
		i++;
	}
	KUNIT_EXPECT_EQ_MSG(ctx->test, i, from + nr, "entries are missing");
}

static void cc_check_queue_len(struct cc_ctx *ctx, unsigned int len)
{
	struct sk_buff *skb;
	unsigned int n = 0;

	skb_queue_walk(&ctx->sk->sk_error_queue, skb)
		n++;
	KUNIT_EXPECT_EQ(ctx->test, n, len);
	KUNIT_EXPECT_EQ(ctx->test, skb_queue_len(&ctx->sk->sk_error_queue), len);
}

/* Put what was taken into the image, as a call writes it. */
static void cc_image_taken(struct cc_ctx *ctx, size_t at)
{
	u32 n = ctx->nr_taken;
	unsigned int i;

	memcpy(ctx->image + at, &n, sizeof(n));
	at += sizeof(n);
	for (i = 0; i < n; i++) {
		const struct sock_extended_err *ee = &ctx->taken[i].ee;
		u8 elem[12] = {};

		memcpy(elem, &ee->ee_info, 4);
		memcpy(elem + 4, &ee->ee_data, 4);
		elem[8] = !(ee->ee_code & SO_EE_CODE_ZEROCOPY_COPIED);
		memcpy(ctx->image + at, elem, sizeof(elem));
		at += sizeof(elem);
	}
}

static size_t cc_payload_at(struct cc_ctx *ctx, bool compat)
{
	return ctx->start - ctx->user + ctx->payload[compat];
}

/* Write what cc_parse_msg() found; this call succeeds. */
static void cc_write(struct cc_ctx *ctx, u32 room, bool compat)
{
	struct kunit *test = ctx->test;

	cc_model(ctx, room);
	cc_image_taken(ctx, cc_payload_at(ctx, compat));
	ctx->sk->sk_err = CC_NO_ERRNO;
	ctx->reports = 0;

	cmsg_copyout_write(ctx->sk, &ctx->out);

	cc_check_user(ctx, CC_USER);
	cc_check_queue(ctx, 0, ctx->left, ctx->nr_left);
	cc_check_queue_len(ctx, ctx->nr_left);
	KUNIT_EXPECT_EQ(test, ctx->sk->sk_err,
			ctx->icmp ? ctx->left[0].ee.ee_errno : CC_NO_ERRNO);
	/* Who waits for what is left is told, as by who reads the queue. */
	KUNIT_EXPECT_EQ(test, ctx->reports,
			ctx->nr_taken && ctx->nr_left ? 1 : 0);
}

/* Ask for up to @room notifications, check all, return how many came. */
static unsigned int cc_deliver(struct cc_ctx *ctx, u32 room)
{
	cc_fill(ctx);
	cc_ask(ctx, room);
	cc_write(ctx, room, false);

	return ctx->nr_taken;
}

/*
 * Ask for up to @room, where elements cannot be written: what was taken is at
 * the head again, in order.
 */
static void cc_deliver_fails(struct cc_ctx *ctx, u32 room)
{
	struct kunit *test = ctx->test;

	cc_ask(ctx, room);
	cc_model(ctx, room);
	ctx->sk->sk_err = CC_NO_ERRNO;
	ctx->reports = 0;

	cmsg_copyout_write(ctx->sk, &ctx->out);

	cc_check_word(ctx, ctx->start + sizeof(struct cmsghdr), 0);
	cc_check_queue(ctx, 0, ctx->taken, ctx->nr_taken);
	cc_check_queue(ctx, ctx->nr_taken, ctx->left, ctx->nr_left);
	cc_check_queue_len(ctx, ctx->nr_before);
	KUNIT_EXPECT_EQ(test, ctx->sk->sk_err, CC_NO_ERRNO);
	/* The queue may have been empty in between: who polls is told. */
	if (ctx->nr_taken)
		KUNIT_EXPECT_GE(test, ctx->reports, 1);
	else
		KUNIT_EXPECT_EQ(test, ctx->reports, 0);
}

/* ---- which control messages are found, and where ---- */

#define CC_PARTS	4

struct cc_parse_param {
	const char *desc;
	struct cc_part parts[CC_PARTS];
	unsigned int nr;
	int err;
	bool found;
	int tail;		/* bytes more or less in msg_controllen */
};

#define PARTS(...)							\
	.parts = { __VA_ARGS__ },					\
	.nr = ARRAY_SIZE(((struct cc_part[]){ __VA_ARGS__ }))

static const struct cc_parse_param cc_parse_params[] = {
	{ .desc = "no control message" },
	{ .desc = "room for none", PARTS(ZC(0)), .found = true },
	{ .desc = "room for one", PARTS(ZC(1)), .found = true },
	{ .desc = "room for the most of a call",
	  PARTS(ZC(ZC_NOTIFICATION_MAX)), .found = true },
	{ .desc = "room for more than the most",
	  PARTS(ZC(ZC_NOTIFICATION_MAX + 1)), .found = true },
	{ .desc = "room for 300", PARTS(ZC(300)), .found = true },

	{ .desc = "no payload", PARTS(ZC_BYTES(0, 0)), .err = -EINVAL },
	{ .desc = "payload of a byte", PARTS(ZC_BYTES(0, 1)), .err = -EINVAL },
	{ .desc = "payload of three bytes", PARTS(ZC_BYTES(0, 3)),
	  .err = -EINVAL },
	{ .desc = "a byte too many", PARTS(ZC_BYTES(1, 17)), .err = -EINVAL },
	{ .desc = "a byte too few", PARTS(ZC_BYTES(1, 15)), .err = -EINVAL },
	{ .desc = "an element too many", PARTS(ZC_BYTES(1, 28)),
	  .err = -EINVAL },
	{ .desc = "an element too few", PARTS(ZC_BYTES(2, 16)),
	  .err = -EINVAL },
	{ .desc = "room for one said to be none", PARTS(ZC_BYTES(0, 16)),
	  .err = -EINVAL },
	{ .desc = "room for none said to be one", PARTS(ZC_BYTES(1, 4)),
	  .err = -EINVAL },
	{ .desc = "size of all ones", PARTS(ZC_BYTES(0xffffffff, 4)),
	  .err = -EINVAL },
	{ .desc = "size of all ones, less than nothing behind",
	  PARTS(ZC_BYTES(0xffffffff, 0)), .err = -EINVAL },
	/* 12 * 0x15555556 + 4 is 0x10000000c. */
	{ .desc = "size too large for 32 bits", PARTS(ZC_BYTES(0x15555556, 12)),
	  .err = -EINVAL },
	/* 12 * 0x40000001 + 4 is 0x300000010, as room for one is 0x10. */
	{ .desc = "size that is one in 32 bits", PARTS(ZC_BYTES(0x40000001, 16)),
	  .err = -EINVAL },

	{ .desc = "SOL_IP", PARTS(OTHER(SOL_IP, SCM_ZC_NOTIFICATION, 16)) },
	{ .desc = "SOL_TCP", PARTS(OTHER(SOL_TCP, SCM_ZC_NOTIFICATION, 16)) },
	{ .desc = "SOL_IPV6, wrong length",
	  PARTS(OTHER(SOL_IPV6, SCM_ZC_NOTIFICATION, 7)) },
	{ .desc = "level 0", PARTS(OTHER(0, SCM_ZC_NOTIFICATION, 16)) },
	{ .desc = "level -1", PARTS(OTHER(-1, SCM_ZC_NOTIFICATION, 16)) },
	{ .desc = "type before", PARTS(OTHER(SOL_SOCKET,
					     SCM_ZC_NOTIFICATION - 1, 16)) },
	{ .desc = "type behind", PARTS(OTHER(SOL_SOCKET,
					     SCM_ZC_NOTIFICATION + 1, 16)) },
	{ .desc = "SO_MARK", PARTS(OTHER(SOL_SOCKET, SO_MARK, 4)) },
	{ .desc = "SCM_RIGHTS", PARTS(OTHER(SOL_SOCKET, SCM_RIGHTS, 4)) },

	{ .desc = "behind one of another type",
	  PARTS(OTHER(SOL_SOCKET, SO_MARK, 4), ZC(2)), .found = true },
	{ .desc = "before one of another type",
	  PARTS(ZC(2), OTHER(SOL_SOCKET, SO_MARK, 4)), .found = true },
	{ .desc = "behind one of the same type at another level",
	  PARTS(OTHER(SOL_IP, SCM_ZC_NOTIFICATION, 16), ZC(2)), .found = true },
	{ .desc = "before one of the same type at another level",
	  PARTS(ZC(2), OTHER(SOL_IP, SCM_ZC_NOTIFICATION, 16)), .found = true },
	{ .desc = "behind three",
	  PARTS(OTHER(SOL_IP, IP_TTL, 4), OTHER(SOL_SOCKET, SCM_TXTIME, 8),
		OTHER(SOL_UDP, 103, 2), ZC(1)), .found = true },
	{ .desc = "among three",
	  PARTS(OTHER(SOL_IP, IP_TTL, 1), OTHER(SOL_UDP, 103, 2), ZC(1),
		OTHER(SOL_SOCKET, SO_MARK, 4)), .found = true },
	{ .desc = "behind three without payload",
	  PARTS(OTHER(SOL_IP, 1, 0), OTHER(SOL_IP, 1, 0), OTHER(SOL_IP, 1, 0),
		ZC(1)), .found = true },
	{ .desc = "behind odd lengths",
	  PARTS(OTHER(SOL_IP, 1, 1), OTHER(SOL_IP, 1, 5), OTHER(SOL_IP, 1, 11),
		ZC(1)), .found = true },

	{ .desc = "two", PARTS(ZC(1), ZC(1)), .err = -EINVAL },
	{ .desc = "two, one without room", PARTS(ZC(1), ZC(0)),
	  .err = -EINVAL },
	{ .desc = "two and others", PARTS(OTHER(SOL_IP, 1, 4), ZC(1),
					  OTHER(SOL_IP, 1, 4), ZC(3)),
	  .err = -EINVAL },
	{ .desc = "three", PARTS(ZC(1), ZC(1), ZC(1)), .err = -EINVAL },
	{ .desc = "right, then wrong", PARTS(ZC(1), ZC_BYTES(1, 15)),
	  .err = -EINVAL },
	{ .desc = "wrong, then right", PARTS(ZC_BYTES(1, 15), ZC(1)),
	  .err = -EINVAL },
	{ .desc = "wrong behind others", PARTS(OTHER(SOL_IP, 1, 4),
					       ZC_BYTES(1, 15)),
	  .err = -EINVAL },

	/* What is malformed ends the search; the protocol refuses it. */
	{ .desc = "malformed: length 0", PARTS(ZC(1), BAD(0)), .found = true },
	{ .desc = "malformed: length of less than a header",
	  PARTS(ZC(1), BAD(sizeof(struct cmsghdr) - 1)), .found = true },
	{ .desc = "malformed: a byte too long",
	  PARTS(ZC(1), BAD(CMSG_SPACE(sizeof(struct zc_info)) + 1)),
	  .found = true },
	{ .desc = "malformed: length of all ones", PARTS(ZC(1), BAD(SIZE_MAX)),
	  .found = true },
	{ .desc = "malformed: length of INT_MAX", PARTS(ZC(1), BAD(INT_MAX)),
	  .found = true },
	{ .desc = "behind a malformed one", PARTS(BAD(1), ZC(1)) },
	{ .desc = "behind one that is too long", PARTS(BAD(INT_MAX), ZC(1)) },

	{ .desc = "not padded", PARTS(ZC(2)), .found = true,
	  .tail = (int)CMSG_LEN(28) - (int)CMSG_SPACE(28) },
	{ .desc = "not padded, size only", PARTS(ZC(0)), .found = true,
	  .tail = (int)CMSG_LEN(4) - (int)CMSG_SPACE(4) },
	{ .desc = "cut", PARTS(ZC(1)), .tail = -5 },
	{ .desc = "cut before its payload", PARTS(ZC(1)), .tail = -16 },
	{ .desc = "cut in its header", PARTS(ZC(1)), .tail = -17 },
	{ .desc = "less than a header behind", PARTS(ZC(1)), .found = true,
	  .tail = sizeof(struct cmsghdr) - 1 },
};

KUNIT_ARRAY_PARAM_DESC(cc_parse, cc_parse_params, desc);

static void cc_do_parse(struct kunit *test, bool compat)
{
	const struct cc_parse_param *p = test->param_value;
	struct cc_ctx *ctx = test->priv;
	const unsigned long user = 0x10000;
	bool others = false;
	unsigned int i;

	cc_no_control(ctx);
	for (i = 0; i < p->nr; i++) {
		cc_add(ctx, &p->parts[i]);
		others |= !cc_ours(&p->parts[i]) || p->parts[i].bad;
	}
	ctx->len += p->tail;

	KUNIT_EXPECT_EQ(test, cc_parse_msg(ctx, (void __user *)user, compat),
			p->err);
	KUNIT_EXPECT_EQ(test, ctx->out.found,
			p->found ? BIT(CMSG_COPYOUT_ZC_NOTIFICATION) : 0);
	if (!p->found)
		return;

	KUNIT_EXPECT_EQ(test, (unsigned long)ctx->out.msg[0].data,
			user + ctx->payload[compat]);
	KUNIT_EXPECT_EQ(test, ctx->out.msg[0].len, ctx->payload_len);
	/* What is malformed is for the protocol, too. */
	KUNIT_EXPECT_EQ(test, ctx->out.others, others);
}

static void cc_parse(struct kunit *test)
{
	cc_do_parse(test, false);
}

static void cc_parse_compat(struct kunit *test)
{
	cc_do_parse(test, true);
}

/* Of all lengths of the payload only the one that belongs to the size is right. */
static void cc_every_length(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;
	u32 size;
	size_t len;

	for (size = 0; size <= 6; size++) {
		for (len = 0; len <= 100; len++) {
			const struct cc_part part = ZC_BYTES(size, len);

			cc_no_control(ctx);
			cc_add(ctx, &part);
			KUNIT_EXPECT_EQ_MSG(test, cc_parse_msg(ctx, NULL, false),
					    len == 4 + 12 * size ? 0 : -EINVAL,
					    "size %u, %zu bytes", size, len);
		}
	}
}

static void cc_without_so_zerocopy(struct kunit *test)
{
	static const struct cc_part ours = ZC(1);
	static const struct cc_part other = OTHER(SOL_SOCKET, SO_MARK, 4);
	struct cc_ctx *ctx = test->priv;

	sock_reset_flag(ctx->sk, SOCK_ZEROCOPY);
	cc_add(ctx, &other);
	KUNIT_EXPECT_EQ(test, cc_parse_msg(ctx, NULL, false), 0);
	KUNIT_EXPECT_EQ(test, ctx->out.found, 0);

	cc_add(ctx, &ours);
	KUNIT_EXPECT_EQ(test, cc_parse_msg(ctx, NULL, false), -EINVAL);
	KUNIT_EXPECT_EQ(test, ctx->out.found, 0);
}

/* RDS has notifications of another kind, at another level. */
static void cc_rds(struct kunit *test)
{
	static const struct cc_part ours = ZC(1);
	struct cc_ctx *ctx = test->priv;
	unsigned short family = ctx->sk->sk_family;

	cc_add(ctx, &ours);
	ctx->sk->sk_family = PF_RDS;
	KUNIT_EXPECT_EQ(test, cc_parse_msg(ctx, NULL, false), -EINVAL);
	KUNIT_EXPECT_EQ(test, ctx->out.found, 0);
	ctx->sk->sk_family = family;
	KUNIT_EXPECT_EQ(test, cc_parse_msg(ctx, NULL, false), 0);
}

/* To find it takes nothing, writes nothing and tells nobody. */
static void cc_parse_takes_nothing(struct kunit *test)
{
	static const struct cc_part ours = ZC(4);
	static const struct cc_part wrong = ZC_BYTES(4, 4);
	struct cc_ctx *ctx = test->priv;
	int compat;

	cc_user(ctx);
	cc_queue(ctx, "ZZTEZ");
	cc_model(ctx, 0);
	ctx->sk->sk_err = CC_NO_ERRNO;
	ctx->reports = 0;

	for (compat = 0; compat < 2; compat++) {
		cc_no_control(ctx);
		cc_add(ctx, &ours);
		KUNIT_EXPECT_EQ(test,
				cc_parse_msg(ctx, (void __user *)ctx->start,
					     compat), 0);
		cc_add(ctx, &wrong);
		KUNIT_EXPECT_EQ(test,
				cc_parse_msg(ctx, (void __user *)ctx->start,
					     compat), -EINVAL);
	}

	cc_check_queue(ctx, 0, ctx->before, ctx->nr_before);
	cc_check_queue_len(ctx, ctx->nr_before);
	cc_check_user(ctx, CC_USER);
	KUNIT_EXPECT_EQ(test, ctx->sk->sk_err, CC_NO_ERRNO);
	KUNIT_EXPECT_EQ(test, ctx->reports, 0);
}

/* What was found by a call before is forgotten. */
static void cc_parse_again(struct kunit *test)
{
	static const struct cc_part other = OTHER(SOL_SOCKET, SO_MARK, 4);
	struct cc_ctx *ctx = test->priv;

	cc_user(ctx);
	cc_queue(ctx, "ZZ");
	cc_ask(ctx, 1);

	cc_no_control(ctx);
	cc_add(ctx, &other);
	KUNIT_EXPECT_EQ(test, cc_parse_msg(ctx, (void __user *)ctx->start,
					   false), 0);
	cmsg_copyout_write(ctx->sk, &ctx->out);
	cc_check_queue_len(ctx, 2);
	cc_check_user(ctx, CC_USER);
}

/* A protocol that parses control messages lets ours pass, and takes nothing. */
static void cc_protocol_lets_it_pass(struct kunit *test)
{
	static const struct cc_part ours = ZC(4);
	struct cc_ctx *ctx = test->priv;
	struct msghdr msg = {};
	struct sockcm_cookie sockc = {};

	cc_queue(ctx, "ZTZ");
	cc_add(ctx, &ours);
	msg.msg_control = ctx->control;
	msg.msg_controllen = ctx->len;

	KUNIT_EXPECT_EQ(test, sock_cmsg_send(ctx->sk, &msg, &sockc), 0);
	sock_reset_flag(ctx->sk, SOCK_ZEROCOPY);
	KUNIT_EXPECT_EQ(test, sock_cmsg_send(ctx->sk, &msg, &sockc), -EINVAL);
	cc_check_queue_len(ctx, 3);
}

/* Behind other control messages of every length: written in its own place. */
static void cc_do_place(struct kunit *test, bool compat)
{
	static const struct cc_part ours = ZC(3);
	static const struct cc_part behind = OTHER(SOL_SOCKET, SO_MARK, 4);
	struct cc_ctx *ctx = test->priv;
	size_t first, second;
	void __user *user;

	cc_user(ctx);
	user = (void __user *)ctx->start;
	for (first = 0; first <= 17; first++) {
		for (second = 0; second <= 17; second++) {
			const struct cc_part one = OTHER(SOL_IP, 1, first);
			const struct cc_part two = OTHER(SOL_IP, 2, second);

			/* Without the second once. */
			cc_no_control(ctx);
			cc_add(ctx, &one);
			if (second)
				cc_add(ctx, &two);
			cc_add(ctx, &ours);
			cc_add(ctx, &behind);

			cc_fill(ctx);
			cc_queue(ctx, "ZCZ");
			KUNIT_ASSERT_EQ(test, cc_parse_msg(ctx, user, compat),
					0);
			cc_write(ctx, 3, compat);
		}
	}
}

static void cc_place(struct kunit *test)
{
	cc_do_place(test, false);
}

static void cc_place_compat(struct kunit *test)
{
	cc_do_place(test, true);
}

/* A program may put its control messages anywhere. */
static void cc_place_not_aligned(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;
	unsigned int i;

	cc_user(ctx);
	for (i = 0; i < 16; i++) {
		ctx->start = ctx->user + 100 + i;
		cc_queue(ctx, "ZCZ");
		KUNIT_EXPECT_EQ(test, cc_deliver(ctx, 3), 3);

		/* Across the border of two pages. */
		ctx->start = ctx->user + PAGE_SIZE - 32 + i;
		cc_queue(ctx, "ZCZ");
		KUNIT_EXPECT_EQ(test, cc_deliver(ctx, 3), 3);
	}
}

/* ---- what is delivered, what stays ---- */

struct cc_queue_param {
	const char *queue;
	u32 room;
	unsigned int taken;
};

static const struct cc_queue_param cc_queue_params[] = {
	{ "", 1, 0 },
	{ "Z", 0, 0 },
	{ "Z", 1, 1 },
	{ "Z", 2, 1 },
	{ "Z", 200, 1 },
	{ "C", 1, 1 },
	{ "H", 1, 1 },
	{ "T", 1, 0 },
	{ "E", 1, 0 },
	{ "6", 1, 0 },
	{ "ZZZ", 0, 0 },
	{ "ZZZ", 1, 1 },
	{ "ZZZ", 2, 2 },
	{ "ZZZ", 3, 3 },
	{ "ZZZ", 4, 3 },
	{ "ZCHCZ", 5, 5 },
	{ "ZTZ", 2, 2 },
	{ "ZTZ", 1, 1 },
	{ "TZ", 1, 1 },
	{ "TTTTZ", 1, 1 },
	{ "TZTZTZT", 3, 3 },
	{ "TZTZTZT", 2, 2 },
	{ "LZXZ", 2, 2 },
	{ "EZ", 1, 1 },
	{ "ZE", 1, 1 },
	{ "Z6", 1, 1 },
	{ "ZL", 1, 1 },
	{ "ZX", 1, 1 },
	{ "ZT", 1, 1 },
	{ "ZTE", 1, 1 },
	{ "ZET", 1, 1 },
	{ "ZZE", 1, 1 },
	{ "ZZE", 2, 2 },
	{ "ZEZE", 1, 1 },
	{ "ZEZE", 2, 2 },
	{ "ZEZ6Z", 3, 3 },
	{ "EZE", 1, 1 },
	{ "EEZ", 1, 1 },
	{ "TZE", 1, 1 },
	{ "TEZCHLXZE6ZTZ", 64, 6 },
	{ "TEZCHLXZE6ZTZ", 5, 5 },
};

static void cc_queue_desc(const struct cc_queue_param *p, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "'%s', room for %u", p->queue,
		 p->room);
}

KUNIT_ARRAY_PARAM(cc_queue, cc_queue_params, cc_queue_desc);

static void cc_delivered(struct kunit *test)
{
	const struct cc_queue_param *p = test->param_value;
	struct cc_ctx *ctx = test->priv;

	cc_user(ctx);
	cc_queue(ctx, p->queue);
	KUNIT_EXPECT_EQ(test, cc_deliver(ctx, p->room), p->taken);
}

static void cc_not_delivered(struct kunit *test)
{
	const struct cc_queue_param *p = test->param_value;
	struct cc_ctx *ctx = test->priv;

	cc_user_one_page(ctx);
	cc_start_at_border(ctx, sizeof(struct zc_info));
	cc_queue(ctx, p->queue);
	cc_deliver_fails(ctx, p->room);
	/* The same again: nothing is lost by that. */
	cc_deliver_fails(ctx, p->room);
	/* And then it is all delivered. */
	ctx->start = ctx->user;
	cc_ask(ctx, p->room);
	cc_model(ctx, p->room);
	KUNIT_EXPECT_EQ(test, ctx->nr_taken, p->taken);
	cmsg_copyout_write(ctx->sk, &ctx->out);
	cc_check_word(ctx, ctx->start + sizeof(struct cmsghdr), p->taken);
	cc_check_queue(ctx, 0, ctx->left, ctx->nr_left);
	cc_check_queue_len(ctx, ctx->nr_left);
}

/* Each queue of up to five entries, with each room. */
#define CC_SEQUENCE	5

static void cc_sequence(char *queue, unsigned int len, unsigned int number)
{
	unsigned int i;

	for (i = 0; i < len; i++) {
		queue[i] = "ZTE"[number % 3];
		number /= 3;
	}
	queue[len] = '\0';
}

static void cc_every_queue(struct kunit *test)
{
	static const u32 rooms[] = { 0, 1, 2, 3, 4, 5, 6 };
	unsigned int len, number, numbers = 1, i;
	struct cc_ctx *ctx = test->priv;
	char queue[CC_SEQUENCE + 1];

	cc_user(ctx);
	for (len = 0; len <= CC_SEQUENCE; len++) {
		for (number = 0; number < numbers; number++) {
			cc_sequence(queue, len, number);
			for (i = 0; i < ARRAY_SIZE(rooms); i++) {
				cc_queue(ctx, queue);
				cc_deliver(ctx, rooms[i]);
				cc_drain(ctx);
				if (test->status == KUNIT_FAILURE)
					KUNIT_ASSERT_FALSE_MSG(test, true,
							       "'%s', room for %u",
							       queue, rooms[i]);
			}
		}
		numbers *= 3;
	}
}

static void cc_every_queue_fails(struct kunit *test)
{
	static const u32 rooms[] = { 0, 1, 2, 5 };
	unsigned int len, number, numbers = 1, i;
	struct cc_ctx *ctx = test->priv;
	char queue[CC_SEQUENCE + 1];

	cc_user_one_page(ctx);
	cc_start_at_border(ctx, sizeof(struct zc_info));
	for (len = 0; len <= CC_SEQUENCE; len++) {
		for (number = 0; number < numbers; number++) {
			cc_sequence(queue, len, number);
			for (i = 0; i < ARRAY_SIZE(rooms); i++) {
				cc_queue(ctx, queue);
				cc_deliver_fails(ctx, rooms[i]);
				cc_drain(ctx);
				if (test->status == KUNIT_FAILURE)
					KUNIT_ASSERT_FALSE_MSG(test, true,
							       "'%s', room for %u",
							       queue, rooms[i]);
			}
		}
		numbers *= 3;
	}
}

/* Room and queue of every size around what a call fills at most. */
struct cc_room_param {
	unsigned int queued;
	u32 room;
	unsigned int taken;
};

static const struct cc_room_param cc_room_params[] = {
	{ 63, 64, 63 },
	{ 64, 63, 63 },
	{ 64, 64, 64 },
	{ 64, 65, 64 },
	{ 65, 64, 64 },
	{ 65, 65, 64 },
	{ 65, 300, 64 },
	{ 200, 1, 1 },
	{ 200, 32, 32 },
	{ 200, 200, 64 },
	{ 200, 300, 64 },
};

static void cc_room_desc(const struct cc_room_param *p, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u queued, room for %u",
		 p->queued, p->room);
}

KUNIT_ARRAY_PARAM(cc_room, cc_room_params, cc_room_desc);

static void cc_room(struct kunit *test)
{
	const struct cc_room_param *p = test->param_value;
	struct cc_ctx *ctx = test->priv;
	unsigned int left = p->queued;

	BUILD_BUG_ON(ZC_NOTIFICATION_MAX != 64);
	cc_user(ctx);
	cc_queue_many(ctx, 'H', p->queued);
	KUNIT_EXPECT_EQ(test, cc_deliver(ctx, p->room), p->taken);

	/* The rest comes with the next calls, and then nothing more. */
	for (left -= p->taken; left; left -= ctx->nr_taken)
		KUNIT_ASSERT_EQ(test, cc_deliver(ctx, p->room),
				min(left, p->taken));
	KUNIT_EXPECT_EQ(test, cc_deliver(ctx, p->room), 0);
}

static void cc_room_fails(struct kunit *test)
{
	const struct cc_room_param *p = test->param_value;
	struct cc_ctx *ctx = test->priv;

	cc_user_one_page(ctx);
	cc_start_at_border(ctx, sizeof(struct zc_info));
	cc_queue_many(ctx, 'H', p->queued);
	cc_deliver_fails(ctx, p->room);
}

/*
 * So many timestamps are in front of a notification; two are further back.
 * The queue is one that a program without privilege can make.
 */
static const unsigned int cc_walk_params[] = {
	0, 1, 2, 126, 127, 128, 129, 130, 1000, 10000,
};

static void cc_walk_desc(const unsigned int *p, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%u in front", *p);
}

KUNIT_ARRAY_PARAM(cc_walk, cc_walk_params, cc_walk_desc);

static void cc_walk_in_front(struct kunit *test)
{
	const unsigned int *p = test->param_value;
	struct cc_ctx *ctx = test->priv;

	cc_user(ctx);
	cc_queue_many(ctx, 'T', *p);
	cc_queue(ctx, "Z");
	KUNIT_EXPECT_EQ(test, cc_deliver(ctx, 1), *p <= CC_PASSED ? 1 : 0);
}

/* All that is passed counts, not what is passed at a stretch. */
static void cc_walk_in_between(struct kunit *test)
{
	const unsigned int *p = test->param_value;
	struct cc_ctx *ctx = test->priv;

	cc_user(ctx);
	cc_queue(ctx, "Z");
	cc_queue_many(ctx, 'T', *p / 2);
	cc_queue(ctx, "Z");
	cc_queue_many(ctx, 'L', *p - *p / 2);
	cc_queue(ctx, "ZTZ");
	KUNIT_EXPECT_EQ(test, cc_deliver(ctx, 10),
			1 + (*p / 2 <= CC_PASSED) + (*p <= CC_PASSED) +
			(*p + 1 <= CC_PASSED));
}

/* Who reads the timestamps gets to the notifications behind them. */
static void cc_walk_goes_on(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_user(ctx);
	cc_queue_many(ctx, 'T', CC_PASSED + 1);
	cc_queue(ctx, "Z");
	KUNIT_EXPECT_EQ(test, cc_deliver(ctx, 1), 0);
	consume_skb(sock_dequeue_err_skb(ctx->sk));
	KUNIT_EXPECT_EQ(test, cc_deliver(ctx, 1), 1);
}

/* Notifications do not count as passed. */
static void cc_walk_past_notifications(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_user(ctx);
	cc_queue_many(ctx, 'H', 40);
	cc_queue_many(ctx, 'T', CC_PASSED);
	cc_queue_many(ctx, 'H', 40);
	KUNIT_EXPECT_EQ(test, cc_deliver(ctx, 100), 64);
	KUNIT_EXPECT_EQ(test, cc_deliver(ctx, 100), 16);
}

/* Elements that were not needed stay as the program left them. */
static void cc_rest_untouched(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_user(ctx);
	cc_queue(ctx, "ZC");
	/* cc_deliver() looks at both pages. */
	KUNIT_EXPECT_EQ(test, cc_deliver(ctx, 100), 2);
	KUNIT_EXPECT_EQ(test, cc_deliver(ctx, 100), 0);
}

/* ---- numbers and ranges ---- */

struct cc_range {
	u32 lo;
	u32 hi;
	u8 zerocopy;
};

/* Ask for more than there is; these ranges come. */
static void cc_expect_ranges(struct cc_ctx *ctx, const struct cc_range *ranges,
			     unsigned int nr)
{
	struct kunit *test = ctx->test;
	unsigned long at = ctx->start + sizeof(struct cmsghdr);
	struct zc_info_elem elem;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, cc_deliver(ctx, nr + 2), nr);
	cc_check_word(ctx, at, nr);
	for (i = 0; i < nr; i++) {
		KUNIT_ASSERT_EQ(test,
				copy_from_user(&elem, (void __user *)
					       (at + 4 + 12 * i), 12), 0);
		KUNIT_EXPECT_EQ(test, elem.lo, ranges[i].lo);
		KUNIT_EXPECT_EQ(test, elem.hi, ranges[i].hi);
		KUNIT_EXPECT_EQ(test, elem.zerocopy, ranges[i].zerocopy);
		KUNIT_EXPECT_EQ(test, elem.reserved[0], 0);
		KUNIT_EXPECT_EQ(test, elem.reserved[1], 0);
		KUNIT_EXPECT_EQ(test, elem.reserved[2], 0);
	}
}

#define EXPECT_RANGES(ctx, ...)						\
	cc_expect_ranges(ctx, (const struct cc_range[]){ __VA_ARGS__ },	\
			 ARRAY_SIZE(((const struct cc_range[]){ __VA_ARGS__ })))

static void cc_layout(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, sizeof(struct zc_info), 4);
	KUNIT_EXPECT_EQ(test, offsetof(struct zc_info, arr), 4);
	KUNIT_EXPECT_EQ(test, sizeof(struct zc_info_elem), 12);
	KUNIT_EXPECT_EQ(test, offsetof(struct zc_info_elem, lo), 0);
	KUNIT_EXPECT_EQ(test, offsetof(struct zc_info_elem, hi), 4);
	KUNIT_EXPECT_EQ(test, offsetof(struct zc_info_elem, zerocopy), 8);
	KUNIT_EXPECT_EQ(test, offsetof(struct zc_info_elem, reserved), 9);
	KUNIT_EXPECT_EQ(test, SCM_ZC_NOTIFICATION,
			IS_ENABLED(CONFIG_SPARC) ? 0x5f :
			IS_ENABLED(CONFIG_PARISC) ? 0x4054 : 86);
}

static void cc_ranges_join(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;
	u32 id;

	cc_user(ctx);
	for (id = 0; id < 10; id++)
		KUNIT_ASSERT_TRUE(test, cc_complete(ctx, id, 1, false));
	EXPECT_RANGES(ctx, { 0, 9, 1 });

	/* What is delivered is not prolonged. */
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 10, 5, false));
	EXPECT_RANGES(ctx, { 10, 14, 1 });
}

/* One call after another into one notification, as TCP does it. */
static void cc_range_of_one_notification(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;
	struct ubuf_info *uarg, *more;
	int i;

	cc_user(ctx);
	lock_sock(ctx->sk);
	uarg = cc_call(ctx, NULL);
	more = uarg;
	for (i = 0; i < 6 && more; i++)
		more = cc_call(ctx, uarg);
	release_sock(ctx->sk);
	KUNIT_ASSERT_NOT_NULL(test, uarg);
	net_zcopy_put(uarg);
	KUNIT_EXPECT_PTR_EQ(test, more, uarg);
	EXPECT_RANGES(ctx, { 0, 6, 1 });
}

/* A call that was given up has a number that the next one gets. */
static void cc_given_up(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;
	struct ubuf_info *uarg;

	cc_user(ctx);
	uarg = cc_call(ctx, NULL);
	KUNIT_ASSERT_NOT_NULL(test, uarg);
	net_zcopy_put_abort(uarg, true);
	KUNIT_EXPECT_EQ(test, cc_deliver(ctx, 1), 0);

	uarg = cc_call(ctx, NULL);
	KUNIT_ASSERT_NOT_NULL(test, uarg);
	net_zcopy_put(uarg);
	EXPECT_RANGES(ctx, { 0, 0, 1 });
}

static void cc_ranges_apart(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_user(ctx);
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 0, 1, false));
	cc_queue(ctx, "T");
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 1, 1, false));
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 3, 1, false));
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 2, 1, false));
	EXPECT_RANGES(ctx, { 0, 0, 1 }, { 1, 1, 1 }, { 3, 3, 1 }, { 2, 2, 1 });
}

/* Completion joins calls without looking whether they were copied. */
static void cc_range_says_copied_as_its_first(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_user(ctx);
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 0, 1, true));
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 1, 1, false));
	EXPECT_RANGES(ctx, { 0, 1, 0 });

	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 2, 1, false));
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 3, 1, true));
	EXPECT_RANGES(ctx, { 2, 3, 1 });
}

static void cc_copied(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_user(ctx);
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 0, 2, false));
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 3, 1, true));
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 5, 2, true));
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 8, 3, false));
	EXPECT_RANGES(ctx, { 0, 1, 1 }, { 3, 3, 0 }, { 5, 6, 0 }, { 8, 10, 1 });
}

/* Another bit of the code says nothing about copying. */
static void cc_other_codes(struct kunit *test)
{
	struct sock_extended_err ee = {
		.ee_origin = SO_EE_ORIGIN_ZEROCOPY,
		.ee_code = 0xff & ~SO_EE_CODE_ZEROCOPY_COPIED,
		.ee_info = 7,
		.ee_data = 7,
	};
	struct cc_ctx *ctx = test->priv;

	cc_user(ctx);
	KUNIT_ASSERT_TRUE(test, cc_make(ctx, &ee));
	ee.ee_code = 0xff;
	KUNIT_ASSERT_TRUE(test, cc_make(ctx, &ee));
	EXPECT_RANGES(ctx, { 7, 7, 1 }, { 7, 7, 0 });
}

static void cc_numbers_wrap(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_user(ctx);
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 0xffffffff, 1, false));
	EXPECT_RANGES(ctx, { 0xffffffff, 0xffffffff, 1 });

	/* In one notification. */
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 0xfffffffe, 4, false));
	EXPECT_RANGES(ctx, { 0xfffffffe, 1, 1 });

	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 0x7fffffff, 2, false));
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 0xffffffff, 1, false));
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 1, 1, false));
	EXPECT_RANGES(ctx, { 0x7fffffff, 0x80000000, 1 },
		      { 0xffffffff, 0xffffffff, 1 }, { 1, 1, 1 });
}

static void cc_long_range(struct kunit *test)
{
	struct sock_extended_err ee = {
		.ee_origin = SO_EE_ORIGIN_ZEROCOPY,
		.ee_info = 5,
		.ee_data = 3,
	};
	struct cc_ctx *ctx = test->priv;

	cc_user(ctx);
	KUNIT_ASSERT_TRUE(test, cc_make(ctx, &ee));
	EXPECT_RANGES(ctx, { 5, 3, 1 });
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 4, 0xffff, false));
	EXPECT_RANGES(ctx, { 4, 0x10002, 1 });
}

/* Both ways in turn: each notification once, in the order of the queue. */
static void cc_both_ways(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;
	struct sk_buff *skb;
	u32 next = 0, i;

	cc_user(ctx);
	cc_queue_many(ctx, 'Z', 60);
	while (next < 60) {
		skb = sock_dequeue_err_skb(ctx->sk);
		KUNIT_ASSERT_NOT_NULL(test, skb);
		KUNIT_EXPECT_EQ(test, SKB_EXT_ERR(skb)->ee.ee_info,
				CC_ID_STEP * next++);
		consume_skb(skb);

		cc_deliver(ctx, 4);
		for (i = 0; i < ctx->nr_taken; i++)
			KUNIT_EXPECT_EQ(test, ctx->taken[i].ee.ee_info,
					CC_ID_STEP * next++);
	}
	KUNIT_EXPECT_EQ(test, next, 60);
	cc_check_queue_len(ctx, 0);
}

/* ---- what cannot be written ---- */

/* The border of the page is behind each byte of size and elements in turn. */
static void cc_page_border(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;
	size_t fits;

	cc_user_one_page(ctx);
	for (fits = 4; fits < 4 + 3 * 12; fits++) {
		cc_start_at_border(ctx, fits);
		cc_queue(ctx, "TZEZCT");
		cc_deliver_fails(ctx, 3);
		/* In front of it nothing is written. */
		memset(ctx->image, CC_FILL, CC_USER);
		cc_check_user(ctx, PAGE_SIZE - fits);
		cc_drain(ctx);
	}

	/* All fits. */
	cc_start_at_border(ctx, fits);
	cc_queue(ctx, "TZEZCT");
	cc_ask(ctx, 3);
	cmsg_copyout_write(ctx->sk, &ctx->out);
	cc_check_word(ctx, ctx->start + sizeof(struct cmsghdr), 3);
	cc_check_queue_len(ctx, 3);
}

/* There is no place for the size: nothing is taken, and nobody is told. */
static void cc_size_not_written(struct cc_ctx *ctx)
{
	struct kunit *test = ctx->test;

	cc_queue(ctx, "ZTZE");
	cc_ask(ctx, 4);
	cc_model(ctx, 4);
	ctx->sk->sk_err = CC_NO_ERRNO;
	ctx->reports = 0;
	cmsg_copyout_write(ctx->sk, &ctx->out);
	cc_check_queue(ctx, 0, ctx->before, ctx->nr_before);
	cc_check_queue_len(ctx, ctx->nr_before);
	KUNIT_EXPECT_EQ(test, ctx->sk->sk_err, CC_NO_ERRNO);
	KUNIT_EXPECT_EQ(test, ctx->reports, 0);
	cc_drain(ctx);
}

static void cc_size_at_page_border(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;
	size_t fits;

	cc_user_one_page(ctx);
	for (fits = 0; fits < 4; fits++) {
		cc_start_at_border(ctx, fits);
		cc_size_not_written(ctx);
		memset(ctx->image, CC_FILL, CC_USER);
		cc_check_user(ctx, PAGE_SIZE - fits);
	}
}

static void cc_read_only(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	ctx->user = cc_mmap(test, NULL, PROT_READ, MAP_ANONYMOUS | MAP_PRIVATE);
	ctx->start = ctx->user;
	cc_size_not_written(ctx);
	/* Pages that were never written. */
	memset(ctx->image, 0, CC_USER);
	cc_check_user(ctx, CC_USER);
}

static void cc_no_memory_there(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_user(ctx);
	KUNIT_ASSERT_EQ(test, vm_munmap(ctx->user, CC_USER), 0);
	cc_size_not_written(ctx);
}

/* Not in the part of the address space that is the program's. */
static void cc_kernel_address(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	memset(ctx->buf, CC_FILL, CC_USER);
	memset(ctx->image, CC_FILL, CC_USER);
	cc_user(ctx);
	ctx->start = (unsigned long)ctx->buf;
	cc_size_not_written(ctx);
	KUNIT_EXPECT_EQ(test, memcmp(ctx->buf, ctx->image, CC_USER), 0);
	ctx->start = -8UL;
	cc_size_not_written(ctx);
}

static void cc_room_for_none(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	/* No element is looked at, even if there is no place for one. */
	cc_user_one_page(ctx);
	cc_start_at_border(ctx, 4);
	cc_queue(ctx, "ZTZ");
	cc_ask(ctx, 0);
	cc_model(ctx, 0);
	ctx->reports = 0;
	cmsg_copyout_write(ctx->sk, &ctx->out);
	cc_check_word(ctx, ctx->start + sizeof(struct cmsghdr), 0);
	cc_check_queue(ctx, 0, ctx->before, ctx->nr_before);
	KUNIT_EXPECT_EQ(test, ctx->reports, 0);
}

/* Elements for which there is no place do not matter if they are not needed. */
static void cc_fewer_than_fit(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_user_one_page(ctx);
	cc_start_at_border(ctx, 4 + 2 * 12);
	cc_queue(ctx, "ZTZ");
	cc_ask(ctx, 3);
	cmsg_copyout_write(ctx->sk, &ctx->out);
	cc_check_word(ctx, ctx->start + sizeof(struct cmsghdr), 2);
	cc_check_queue_len(ctx, 1);
}

/* ---- what happens meanwhile ---- */

/* A failure while this and that happens; the rest is up to the caller. */
static void cc_watched_write(struct cc_ctx *ctx, const char *queue, u32 room,
			     void (*meanwhile)(struct cc_ctx *ctx))
{
	struct kunit *test = ctx->test;

	cc_user_watched(ctx, meanwhile);
	cc_queue(ctx, queue);
	cc_ask(ctx, room);
	cc_model(ctx, room);
	ctx->sk->sk_err = CC_NO_ERRNO;
	ctx->reports = 0;
	ctx->met_err = 0;

	cmsg_copyout_write(ctx->sk, &ctx->out);

	KUNIT_ASSERT_NULL_MSG(test, ctx->meanwhile,
			      "the elements were not written");
	KUNIT_EXPECT_FALSE(test, ctx->broken);
	/* Nothing of the error is told before the elements are written. */
	KUNIT_EXPECT_EQ(test, ctx->met_err, CC_NO_ERRNO);
}

static void cc_watched_size(struct cc_ctx *ctx, u32 size)
{
	cc_check_word(ctx, ctx->user + PAGE_SIZE - sizeof(u32), size);
}

/* The queue, written as it is at the head of this file. */
static void cc_expect_queue(struct cc_ctx *ctx, const char *queue)
{
	struct sk_buff *skb;
	char is[64];
	int n = 0;

	skb_queue_walk(&ctx->sk->sk_error_queue, skb) {
		const struct sock_extended_err *ee = &SKB_EXT_ERR(skb)->ee;
		char kind = '?';

		switch (ee->ee_origin) {
		case SO_EE_ORIGIN_ZEROCOPY:
			kind = ee->ee_code ? 'C' : 'Z';
			break;
		case SO_EE_ORIGIN_TIMESTAMPING:
			kind = 'T';
			break;
		case SO_EE_ORIGIN_LOCAL:
			kind = 'L';
			break;
		case SO_EE_ORIGIN_TXTIME:
			kind = 'X';
			break;
		case SO_EE_ORIGIN_ICMP:
			kind = 'E';
			break;
		case SO_EE_ORIGIN_ICMP6:
			kind = '6';
			break;
		}
		if (n < sizeof(is) - 1)
			is[n++] = kind;
	}
	is[n] = '\0';
	KUNIT_EXPECT_STREQ(ctx->test, is, queue);
}

static void cc_nothing(struct cc_ctx *ctx)
{
}

static void cc_gone(struct cc_ctx *ctx)
{
	ctx->second_gone = true;
}

static void cc_size_gone(struct cc_ctx *ctx)
{
	ctx->first_gone = true;
	unmap_mapping_range(&cc_mapping, 0, PAGE_SIZE, 1);
}

static void cc_arrive(struct cc_ctx *ctx)
{
	ctx->broken |= !cc_try_queue(ctx, "CTEZ");
}

static void cc_arrive_and_gone(struct cc_ctx *ctx)
{
	cc_arrive(ctx);
	cc_gone(ctx);
}

static void cc_arrive_and_size_gone(struct cc_ctx *ctx)
{
	cc_arrive(ctx);
	cc_size_gone(ctx);
}

/* Another reads one entry of the error queue. */
static void cc_read_one(struct cc_ctx *ctx)
{
	ctx->read = sock_dequeue_err_skb(ctx->sk);
	if (!ctx->read)
		ctx->broken = true;
	consume_skb(ctx->read);
}

static void cc_read_one_and_gone(struct cc_ctx *ctx)
{
	cc_read_one(ctx);
	cc_gone(ctx);
}

/* The memory that tells when it is written is no different from other. */
static void cc_watched(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_watched_write(ctx, "ZTZC", 3, cc_nothing);
	cc_image_taken(ctx, PAGE_SIZE - sizeof(u32));
	cc_check_user(ctx, CC_USER);
	cc_expect_queue(ctx, "T");
}

/* The error behind a notification is told when that is delivered. */
static void cc_error_told_last(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_watched_write(ctx, "ZE", 1, cc_nothing);
	KUNIT_EXPECT_EQ(test, ctx->sk->sk_err, ctx->left[0].ee.ee_errno);
	KUNIT_EXPECT_EQ(test, ctx->reports, 1);
}

/* And not if it is not. */
static void cc_error_not_told(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_watched_write(ctx, "ZE", 1, cc_gone);
	cc_watched_size(ctx, 0);
	cc_expect_queue(ctx, "ZE");
	KUNIT_EXPECT_EQ(test, ctx->sk->sk_err, CC_NO_ERRNO);
}

/* Elements are written, and then the size cannot be written any more. */
static void cc_size_gone_in_the_end(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_watched_write(ctx, "ZTZEC", 3, cc_size_gone);
	cc_check_queue(ctx, 0, ctx->taken, 3);
	cc_check_queue(ctx, 3, ctx->left, 2);
	cc_check_queue_len(ctx, 5);
	KUNIT_EXPECT_EQ(test, ctx->sk->sk_err, CC_NO_ERRNO);
	KUNIT_EXPECT_GE(test, ctx->reports, 1);

	/* It comes back as it was when it went: nothing was delivered. */
	ctx->first_gone = false;
	cc_watched_size(ctx, 0);
}

/* What arrives meanwhile is for the next call. */
static void cc_arrives_meanwhile(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_watched_write(ctx, "ZZ", 8, cc_arrive);
	cc_watched_size(ctx, 2);
	cc_expect_queue(ctx, "CTEZ");
}

/* What goes back is in front of what arrived meanwhile. */
static void cc_arrives_and_fails(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_watched_write(ctx, "ZTZ", 8, cc_arrive_and_gone);
	cc_watched_size(ctx, 0);
	cc_check_queue(ctx, 0, ctx->taken, 2);
	cc_check_queue(ctx, 2, ctx->left, 1);
	cc_expect_queue(ctx, "ZZTCTEZ");
}

static void cc_arrives_and_size_fails(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_watched_write(ctx, "ZTZ", 8, cc_arrive_and_size_gone);
	cc_check_queue(ctx, 0, ctx->taken, 2);
	cc_check_queue(ctx, 2, ctx->left, 1);
	cc_expect_queue(ctx, "ZZTCTEZ");
}

/* An ICMP error that arrives while the queue is empty reports itself. */
static void cc_error_arrives_meanwhile(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_watched_write(ctx, "ZZ", 2, cc_arrive);
	KUNIT_EXPECT_EQ(test, ctx->sk->sk_err, CC_NO_ERRNO);
}

/* The error behind the notifications was read by another: it is over. */
static void cc_error_read_meanwhile(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_watched_write(ctx, "ZET", 1, cc_read_one);
	cc_watched_size(ctx, 1);
	cc_expect_queue(ctx, "T");
	KUNIT_EXPECT_EQ(test, ctx->sk->sk_err, 0);
}

static void cc_last_error_read_meanwhile(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_watched_write(ctx, "ZE", 1, cc_read_one);
	cc_watched_size(ctx, 1);
	cc_expect_queue(ctx, "");
	KUNIT_EXPECT_EQ(test, ctx->sk->sk_err, 0);
}

/* The next error is told, whoever made it the first. */
static void cc_next_error_meanwhile(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_watched_write(ctx, "ZEE", 1, cc_read_one);
	cc_watched_size(ctx, 1);
	KUNIT_EXPECT_EQ(test, ctx->sk->sk_err, ctx->left[1].ee.ee_errno);
}

static void cc_error_after_timestamp(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_watched_write(ctx, "ZTE", 1, cc_read_one);
	cc_watched_size(ctx, 1);
	KUNIT_EXPECT_EQ(test, ctx->sk->sk_err, ctx->left[1].ee.ee_errno);
}

/* Another reads a notification that was not taken: each is delivered once. */
static void cc_read_meanwhile(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_watched_write(ctx, "ZZZZ", 2, cc_read_one);
	cc_watched_size(ctx, 2);
	KUNIT_EXPECT_PTR_EQ(test, (const void *)ctx->read,
			    (const void *)ctx->left[0].skb);
	cc_check_queue(ctx, 0, ctx->left + 1, 1);
	cc_check_queue_len(ctx, 1);
}

static void cc_read_and_fails(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_watched_write(ctx, "ZZZZ", 2, cc_read_one_and_gone);
	cc_watched_size(ctx, 0);
	KUNIT_EXPECT_PTR_EQ(test, (const void *)ctx->read,
			    (const void *)ctx->left[0].skb);
	cc_check_queue(ctx, 0, ctx->taken, 2);
	cc_check_queue(ctx, 2, ctx->left + 1, 1);
	cc_check_queue_len(ctx, 3);
}

/* Another call takes notifications while this one writes. */
static void cc_another_call(struct cc_ctx *ctx)
{
	/* Its memory is there: this is no fault within a fault. */
	pagefault_disable();
	cmsg_copyout_write(ctx->sk, &ctx->other);
	pagefault_enable();
}

static void cc_another_call_and_gone(struct cc_ctx *ctx)
{
	cc_another_call(ctx);
	cc_gone(ctx);
}

static void cc_prepare_another(struct cc_ctx *ctx, u32 room)
{
	cc_user(ctx);
	cc_ask(ctx, room);
	ctx->other = ctx->out;
	ctx->other_user = ctx->user;
}

static void cc_two_calls(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;
	unsigned long at;

	cc_prepare_another(ctx, 2);
	cc_watched_write(ctx, "ZZTZZZ", 2, cc_another_call);
	cc_watched_size(ctx, 2);
	cc_check_word(ctx, ctx->user + PAGE_SIZE, ctx->taken[0].ee.ee_info);
	cc_check_word(ctx, ctx->user + PAGE_SIZE + 12, ctx->taken[1].ee.ee_info);

	at = ctx->other_user + sizeof(struct cmsghdr);
	cc_check_word(ctx, at, 2);
	cc_check_word(ctx, at + 4, ctx->left[1].ee.ee_info);
	cc_check_word(ctx, at + 16, ctx->left[2].ee.ee_info);
	cc_check_queue(ctx, 0, ctx->left, 1);
	cc_check_queue(ctx, 1, ctx->left + 3, 1);
	cc_check_queue_len(ctx, 2);
}

static void cc_two_calls_one_fails(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;
	unsigned long at;

	cc_prepare_another(ctx, 2);
	cc_watched_write(ctx, "ZZTZZZ", 2, cc_another_call_and_gone);
	cc_watched_size(ctx, 0);

	at = ctx->other_user + sizeof(struct cmsghdr);
	cc_check_word(ctx, at, 2);
	cc_check_word(ctx, at + 4, ctx->left[1].ee.ee_info);
	cc_check_word(ctx, at + 16, ctx->left[2].ee.ee_info);
	cc_check_queue(ctx, 0, ctx->taken, 2);
	cc_check_queue(ctx, 2, ctx->left, 1);
	cc_check_queue(ctx, 3, ctx->left + 3, 1);
	cc_check_queue_len(ctx, 4);
}

/* The next number arrives while the range that it would prolong is away. */
static void cc_next_number(struct cc_ctx *ctx)
{
	ctx->broken |= !cc_complete(ctx, 1, 1, false);
}

static void cc_next_number_and_gone(struct cc_ctx *ctx)
{
	cc_next_number(ctx);
	cc_gone(ctx);
}

static void cc_prolonged_meanwhile(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_watched_write(ctx, "Z", 1, cc_next_number);
	cc_watched_size(ctx, 1);
	cc_check_word(ctx, ctx->user + PAGE_SIZE, 0);
	cc_check_word(ctx, ctx->user + PAGE_SIZE + 4, 0);

	cc_user(ctx);
	EXPECT_RANGES(ctx, { 1, 1, 1 });
}

static void cc_prolonged_meanwhile_fails(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_watched_write(ctx, "Z", 1, cc_next_number_and_gone);
	cc_watched_size(ctx, 0);
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 2, 1, false));

	cc_user(ctx);
	EXPECT_RANGES(ctx, { 0, 0, 1 }, { 1, 2, 1 });
}

/* A range that was put back is the last of the queue: it is prolonged. */
static void cc_prolonged_after(struct kunit *test)
{
	struct cc_ctx *ctx = test->priv;

	cc_watched_write(ctx, "Z", 1, cc_gone);
	cc_watched_size(ctx, 0);
	KUNIT_ASSERT_TRUE(test, cc_complete(ctx, 1, 3, false));

	cc_user(ctx);
	EXPECT_RANGES(ctx, { 0, 3, 1 });
}

static struct kunit_case cc_cases[] = {
	KUNIT_CASE_PARAM(cc_parse, cc_parse_gen_params),
	KUNIT_CASE_PARAM(cc_parse_compat, cc_parse_gen_params),
	KUNIT_CASE(cc_every_length),
	KUNIT_CASE(cc_without_so_zerocopy),
	KUNIT_CASE(cc_rds),
	KUNIT_CASE(cc_parse_takes_nothing),
	KUNIT_CASE(cc_parse_again),
	KUNIT_CASE(cc_protocol_lets_it_pass),
	KUNIT_CASE(cc_place),
	KUNIT_CASE(cc_place_compat),
	KUNIT_CASE(cc_place_not_aligned),
	KUNIT_CASE_PARAM(cc_delivered, cc_queue_gen_params),
	KUNIT_CASE_PARAM(cc_not_delivered, cc_queue_gen_params),
	KUNIT_CASE(cc_every_queue),
	KUNIT_CASE(cc_every_queue_fails),
	KUNIT_CASE_PARAM(cc_room, cc_room_gen_params),
	KUNIT_CASE_PARAM(cc_room_fails, cc_room_gen_params),
	KUNIT_CASE_PARAM(cc_walk_in_front, cc_walk_gen_params),
	KUNIT_CASE_PARAM(cc_walk_in_between, cc_walk_gen_params),
	KUNIT_CASE(cc_walk_goes_on),
	KUNIT_CASE(cc_walk_past_notifications),
	KUNIT_CASE(cc_rest_untouched),
	KUNIT_CASE(cc_layout),
	KUNIT_CASE(cc_ranges_join),
	KUNIT_CASE(cc_range_of_one_notification),
	KUNIT_CASE(cc_given_up),
	KUNIT_CASE(cc_ranges_apart),
	KUNIT_CASE(cc_range_says_copied_as_its_first),
	KUNIT_CASE(cc_copied),
	KUNIT_CASE(cc_other_codes),
	KUNIT_CASE(cc_numbers_wrap),
	KUNIT_CASE(cc_long_range),
	KUNIT_CASE(cc_both_ways),
	KUNIT_CASE(cc_page_border),
	KUNIT_CASE(cc_size_at_page_border),
	KUNIT_CASE(cc_read_only),
	KUNIT_CASE(cc_no_memory_there),
	KUNIT_CASE(cc_kernel_address),
	KUNIT_CASE(cc_room_for_none),
	KUNIT_CASE(cc_fewer_than_fit),
	KUNIT_CASE(cc_watched),
	KUNIT_CASE(cc_error_told_last),
	KUNIT_CASE(cc_error_not_told),
	KUNIT_CASE(cc_size_gone_in_the_end),
	KUNIT_CASE(cc_arrives_meanwhile),
	KUNIT_CASE(cc_arrives_and_fails),
	KUNIT_CASE(cc_arrives_and_size_fails),
	KUNIT_CASE(cc_error_arrives_meanwhile),
	KUNIT_CASE(cc_error_read_meanwhile),
	KUNIT_CASE(cc_last_error_read_meanwhile),
	KUNIT_CASE(cc_next_error_meanwhile),
	KUNIT_CASE(cc_error_after_timestamp),
	KUNIT_CASE(cc_read_meanwhile),
	KUNIT_CASE(cc_read_and_fails),
	KUNIT_CASE(cc_two_calls),
	KUNIT_CASE(cc_two_calls_one_fails),
	KUNIT_CASE(cc_prolonged_meanwhile),
	KUNIT_CASE(cc_prolonged_meanwhile_fails),
	KUNIT_CASE(cc_prolonged_after),
	{}
};

static struct kunit_suite cc_suite = {
	.name = "sock_cmsg_copyout",
	.init = cc_init,
	.exit = cc_exit,
	.test_cases = cc_cases,
};

kunit_test_suite(cc_suite);

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");
MODULE_DESCRIPTION("KUnit tests for control messages that sendmsg() writes");
MODULE_LICENSE("GPL");
