// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests for what a receive on an AF_VSOCK socket says of the data that it
 * leaves: the answer to io_uring in msghdr.msg_inq, SO_INQ, and SIOCINQ.
 *
 * The receive is the real one, on a socket that the suite connects to a
 * transport of its own, whose answers a case chooses.
 */
#include <kunit/test.h>
#include <linux/bpf.h>
#include <linux/errqueue.h>
#include <linux/mman.h>
#include <linux/net.h>
#include <linux/skmsg.h>
#include <linux/sockios.h>
#include <linux/uaccess.h>
#include <asm/ioctls.h>
#include <net/af_vsock.h>
#include <net/net_namespace.h>
#include <net/sock.h>

#define UNTOUCHED	(-12345)

struct inq_ctx {
	struct socket *sock;
	struct vsock_sock *vsk;
	s64 has_data;		/* bytes queued on a stream, or messages */
	s64 has_data_after;	/* the same, once something was dequeued */
	int asked;		/* how often it was asked since then */
	int peer_shutdown;	/* arrives together with the data */
	int sk_err;		/* the same */
	bool transport_gone;	/* the same */
	bool closed;		/* the same */
};

/* Control messages are read where they are written. */
union inq_control {
	struct cmsghdr cmsg;
	u8 buf[CMSG_SPACE(sizeof(int))];
};

static struct inq_ctx *inq_ctx_of(struct vsock_sock *vsk)
{
	return vsk->trans;
}

static s64 inq_stream_has_data(struct vsock_sock *vsk)
{
	struct inq_ctx *ctx = inq_ctx_of(vsk);

	ctx->asked++;
	/* The bytes of a seqpacket socket are nobody's business. */
	return sk_vsock(vsk)->sk_type == SOCK_STREAM ? ctx->has_data : -EIO;
}

static u32 inq_seqpacket_has_data(struct vsock_sock *vsk)
{
	struct inq_ctx *ctx = inq_ctx_of(vsk);

	ctx->asked++;
	return ctx->has_data;
}

static u64 inq_stream_rcvhiwat(struct vsock_sock *vsk)
{
	return SZ_64K;
}

static int inq_notify(struct vsock_sock *vsk, size_t target,
		      struct vsock_transport_recv_notify_data *data)
{
	return 0;
}

static int inq_notify_post(struct vsock_sock *vsk, size_t target, ssize_t copied,
			   bool data_read,
			   struct vsock_transport_recv_notify_data *data)
{
	return 0;
}

static ssize_t inq_stream_dequeue(struct vsock_sock *vsk, struct msghdr *msg,
				  size_t len, int flags)
{
	struct inq_ctx *ctx = inq_ctx_of(vsk);

	if (!(flags & MSG_PEEK))
		ctx->has_data = ctx->has_data_after;
	ctx->asked = 0;
	vsk->peer_shutdown |= ctx->peer_shutdown;
	sk_vsock(vsk)->sk_err = ctx->sk_err;
	if (ctx->transport_gone)
		vsk->transport = NULL;
	if (ctx->closed)
		sk_vsock(vsk)->sk_state = TCP_CLOSE;

	return 1;
}

static ssize_t inq_seqpacket_dequeue(struct vsock_sock *vsk, struct msghdr *msg,
				     int flags)
{
	/* A message of one byte. */
	iov_iter_advance(&msg->msg_iter, 1);

	return inq_stream_dequeue(vsk, msg, 1, flags);
}

static int inq_read_skb(struct vsock_sock *vsk, skb_read_actor_t actor)
{
	return -EAGAIN;
}

static const struct vsock_transport inq_transport = {
	.stream_has_data = inq_stream_has_data,
	.stream_rcvhiwat = inq_stream_rcvhiwat,
	.stream_dequeue = inq_stream_dequeue,
	.seqpacket_has_data = inq_seqpacket_has_data,
	.seqpacket_dequeue = inq_seqpacket_dequeue,
	.notify_recv_init = inq_notify,
	.notify_recv_pre_block = inq_notify,
	.notify_recv_pre_dequeue = inq_notify,
	.notify_recv_post_dequeue = inq_notify_post,
	.read_skb = inq_read_skb,
};

static void inq_disconnect(struct inq_ctx *ctx)
{
	ctx->vsk->transport = NULL;
	ctx->vsk->trans = NULL;
	sk_vsock(ctx->vsk)->sk_state = TCP_CLOSE;
	ctx->sock->state = SS_UNCONNECTED;
}

/* Only a connected socket of the wanted type is of use to a case. */
static struct inq_ctx *inq_connect(struct kunit *test, int type)
{
	struct inq_ctx *ctx = test->priv;
	int err;

	err = sock_create_kern(&init_net, AF_VSOCK, type, 0, &ctx->sock);
	KUNIT_ASSERT_EQ(test, err, 0);

	ctx->vsk = vsock_sk(ctx->sock->sk);
	ctx->vsk->trans = ctx;
	ctx->vsk->transport = &inq_transport;
	sk_vsock(ctx->vsk)->sk_state = TCP_ESTABLISHED;
	ctx->sock->state = SS_CONNECTED;

	return ctx;
}

static int inq_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct inq_ctx), GFP_KERNEL);

	return test->priv ? 0 : -ENOMEM;
}

static void inq_exit(struct kunit *test)
{
	struct inq_ctx *ctx = test->priv;

	if (!ctx || !ctx->sock)
		return;

	inq_disconnect(ctx);
	sock_release(ctx->sock);
}

/* Receive without waiting, as io_uring does: it asks what is left. */
static int inq_recv(struct inq_ctx *ctx, size_t len, int flags, int *inq)
{
	struct msghdr msg = { .msg_get_inq = 1, .msg_inq = UNTOUCHED };
	u8 byte = 0;
	struct kvec vec = { .iov_base = &byte, .iov_len = len };
	int ret;

	iov_iter_kvec(&msg.msg_iter, ITER_DEST, &vec, 1, len);
	ret = sock_recvmsg(ctx->sock, &msg, flags | MSG_DONTWAIT);
	*inq = msg.msg_inq;

	return ret;
}

/* What a receive that worked says, by what is queued behind it. */
struct inq_left_param {
	const char *desc;
	s64 left;
	int stream;
	int seqpacket;
};

static const struct inq_left_param inq_left_params[] = {
	{ "nothing", 0, 0, 0 },
	{ "one", 1, 1, 1 },
	{ "two", 2, 2, 1 },
	{ "a page", 4096, 4096, 1 },
	{ "INT_MAX", INT_MAX, INT_MAX, 1 },
	{ "INT_MAX + 1", (s64)INT_MAX + 1, INT_MAX, 1 },
	{ "U32_MAX", U32_MAX, INT_MAX, 1 },
};

KUNIT_ARRAY_PARAM_DESC(inq_left, inq_left_params, desc);

static void inq_stream_left(struct kunit *test)
{
	const struct inq_left_param *p = test->param_value;
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	int inq;

	ctx->has_data = 1;
	ctx->has_data_after = p->left;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), 1);
	KUNIT_EXPECT_EQ(test, inq, p->stream);
}

static void inq_seqpacket_left(struct kunit *test)
{
	const struct inq_left_param *p = test->param_value;
	struct inq_ctx *ctx = inq_connect(test, SOCK_SEQPACKET);
	int inq;

	ctx->has_data = 1;
	ctx->has_data_after = p->left;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), 1);
	KUNIT_EXPECT_EQ(test, inq, p->seqpacket);
}

/* A transport that cannot tell is not an error and no number. */
struct inq_unknown_param {
	const char *desc;
	s64 answer;
};

static const struct inq_unknown_param inq_unknown_params[] = {
	{ "EIO", -EIO },
	{ "ENOBUFS", -ENOBUFS },
	{ "S64_MIN", S64_MIN },
	/* INT_MAX if it went through an int. */
	{ "wraps to INT_MAX", -((1LL << 31) + 1) },
};

KUNIT_ARRAY_PARAM_DESC(inq_unknown, inq_unknown_params, desc);

static void inq_transport_cannot_tell(struct kunit *test)
{
	const struct inq_unknown_param *p = test->param_value;
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	int inq;

	ctx->has_data = 1;
	ctx->has_data_after = p->answer;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), 1);
	KUNIT_EXPECT_EQ(test, inq, UNTOUCHED);
}

/* The queue is empty, but the next receive does not wait. */
struct inq_ended_param {
	const char *desc;
	int type;
	int peer_shutdown;
	int sk_err;
	int inq;
};

static const struct inq_ended_param inq_ended_params[] = {
	{ "stream, peer sends no more", SOCK_STREAM, SEND_SHUTDOWN, 0, 1 },
	{ "stream, peer receives no more", SOCK_STREAM, RCV_SHUTDOWN, 0, 0 },
	{ "stream, peer is gone", SOCK_STREAM, SHUTDOWN_MASK, 0, 1 },
	{ "stream, error", SOCK_STREAM, 0, ECONNRESET, 1 },
	{ "seqpacket, peer sends no more", SOCK_SEQPACKET, SEND_SHUTDOWN, 0, 1 },
	{ "seqpacket, peer receives no more", SOCK_SEQPACKET, RCV_SHUTDOWN, 0, 0 },
	{ "seqpacket, peer is gone", SOCK_SEQPACKET, SHUTDOWN_MASK, 0, 1 },
};

KUNIT_ARRAY_PARAM_DESC(inq_ended, inq_ended_params, desc);

static void inq_drained_and_ended(struct kunit *test)
{
	const struct inq_ended_param *p = test->param_value;
	struct inq_ctx *ctx = inq_connect(test, p->type);
	int inq;

	ctx->has_data = 1;
	ctx->peer_shutdown = p->peer_shutdown;
	ctx->sk_err = p->sk_err;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), 1);
	KUNIT_EXPECT_EQ(test, inq, p->inq);
}

/* The end does not make a stream forget how much is still queued. */
static void inq_ended_with_data_left(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	int inq;

	ctx->has_data = 1;
	ctx->has_data_after = 100;
	ctx->peer_shutdown = SHUTDOWN_MASK;
	ctx->sk_err = ECONNRESET;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), 1);
	KUNIT_EXPECT_EQ(test, inq, 100);
}

/* Both kinds of socket; what they have in common. */
struct inq_type_param {
	const char *desc;
	int type;
};

static const struct inq_type_param inq_type_params[] = {
	{ "stream", SOCK_STREAM },
	{ "seqpacket", SOCK_SEQPACKET },
};

KUNIT_ARRAY_PARAM_DESC(inq_type, inq_type_params, desc);

static struct inq_ctx *inq_connect_param(struct kunit *test)
{
	const struct inq_type_param *p = test->param_value;

	return inq_connect(test, p->type);
}

static void inq_end_of_file(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect_param(test);
	int inq;

	ctx->vsk->peer_shutdown = SHUTDOWN_MASK;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), 0);
	KUNIT_EXPECT_EQ(test, inq, 1);
}

static void inq_local_shutdown(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect_param(test);
	int inq;

	sk_vsock(ctx->vsk)->sk_shutdown = RCV_SHUTDOWN;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), 0);
	KUNIT_EXPECT_EQ(test, inq, 1);
}

static void inq_connection_done(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	int inq;

	sock_set_flag(sk_vsock(ctx->vsk), SOCK_DONE);
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 0, 0, &inq), 0);
	KUNIT_EXPECT_EQ(test, inq, 1);

	sk_vsock(ctx->vsk)->sk_state = TCP_CLOSING;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), 0);
	KUNIT_EXPECT_EQ(test, inq, 1);
}

static void inq_closed_meanwhile(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect_param(test);
	int inq;

	ctx->has_data = 1;
	ctx->closed = true;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), 1);
	KUNIT_EXPECT_EQ(test, inq, 1);
}

static void inq_transport_gone(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect_param(test);
	int inq;

	inq_disconnect(ctx);
	sock_set_flag(sk_vsock(ctx->vsk), SOCK_DONE);
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), 0);
	KUNIT_EXPECT_EQ(test, inq, 1);
}

static void inq_transport_goes_meanwhile(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect_param(test);
	int inq;

	ctx->has_data = 1;
	ctx->transport_gone = true;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), 1);
	KUNIT_EXPECT_EQ(test, inq, 1);
}

static void inq_peek(struct kunit *test)
{
	const struct inq_type_param *p = test->param_value;
	struct inq_ctx *ctx = inq_connect_param(test);
	int inq;

	ctx->has_data = 8;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, MSG_PEEK, &inq), 1);
	KUNIT_EXPECT_EQ(test, inq, p->type == SOCK_STREAM ? 8 : 1);
}

static void inq_truncated(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_SEQPACKET);
	int inq;

	ctx->has_data = 2;
	ctx->has_data_after = 1;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, MSG_TRUNC, &inq), 1);
	KUNIT_EXPECT_EQ(test, inq, 1);
}

static void inq_zero_length(struct kunit *test)
{
	const struct inq_type_param *p = test->param_value;
	struct inq_ctx *ctx = inq_connect_param(test);
	int inq;

	ctx->has_data = 8;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 0, 0, &inq), 0);
	KUNIT_EXPECT_EQ(test, inq, p->type == SOCK_STREAM ? 8 : 1);

	ctx->has_data = 0;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 0, 0, &inq), 0);
	KUNIT_EXPECT_EQ(test, inq, 0);

	sk_vsock(ctx->vsk)->sk_err = ECONNRESET;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 0, 0, &inq), 0);
	KUNIT_EXPECT_EQ(test, inq, 1);
}

/* A low-water mark is for those who wait. */
static void inq_below_low_water_mark(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	int inq;

	sk_vsock(ctx->vsk)->sk_rcvlowat = 100;
	ctx->has_data = 9;
	ctx->has_data_after = 8;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), 1);
	KUNIT_EXPECT_EQ(test, inq, 8);
}

/* No number of bytes that are queued is taken for an error. */
static void inq_recv_from_large_queue(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	int inq;

	ctx->has_data = (s64)INT_MAX + 2;
	ctx->has_data_after = (s64)INT_MAX + 1;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), 1);
	KUNIT_EXPECT_EQ(test, inq, INT_MAX);
}

static void inq_failed_would_block(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	int inq;

	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), -EAGAIN);
	KUNIT_EXPECT_EQ(test, inq, UNTOUCHED);
}

static void inq_failed_out_of_band(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	int inq;

	ctx->has_data = 8;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, MSG_OOB, &inq), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, inq, UNTOUCHED);
}

static void inq_failed_unconnected(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	int inq;

	inq_disconnect(ctx);
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), -ENOTCONN);
	KUNIT_EXPECT_EQ(test, inq, UNTOUCHED);
}

static void inq_failed_with_error(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	int inq;

	sk_vsock(ctx->vsk)->sk_err = ECONNRESET;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), -ECONNRESET);
	KUNIT_EXPECT_EQ(test, inq, UNTOUCHED);
}

static void inq_error_queue(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	struct sock *sk = sk_vsock(ctx->vsk);
	struct sk_buff *skb;
	int inq;

	ctx->has_data = 8;
	skb = alloc_skb(0, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, skb);
	memset(SKB_EXT_ERR(skb), 0, sizeof(*SKB_EXT_ERR(skb)));
	KUNIT_ASSERT_EQ(test, sock_queue_err_skb(sk, skb), 0);

	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, MSG_ERRQUEUE, &inq), 0);
	KUNIT_EXPECT_EQ(test, inq, UNTOUCHED);
}

/* Nobody asks: neither is the transport, nor is anything written. */
static void inq_not_asked(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	struct msghdr msg = { .msg_inq = UNTOUCHED };
	union inq_control control = {};
	u8 byte;
	struct kvec vec = { .iov_base = &byte, .iov_len = 1 };

	ctx->has_data = 1;
	ctx->has_data_after = 8;
	msg.msg_control = &control;
	msg.msg_controllen = sizeof(control);
	KUNIT_EXPECT_EQ(test, kernel_recvmsg(ctx->sock, &msg, &vec, 1, 1,
					     MSG_DONTWAIT), 1);
	KUNIT_EXPECT_EQ(test, ctx->asked, 0);
	KUNIT_EXPECT_EQ(test, msg.msg_inq, UNTOUCHED);
	KUNIT_EXPECT_EQ(test, msg.msg_controllen, sizeof(control));
}

static int inq_set_so_inq(struct inq_ctx *ctx, int val, int len)
{
	const struct proto_ops *ops = READ_ONCE(ctx->sock->ops);

	return ops->setsockopt(ctx->sock, SOL_SOCKET, SO_INQ,
			       KERNEL_SOCKPTR(&val), len);
}

static void inq_so_inq_values(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_SEQPACKET);

	KUNIT_EXPECT_FALSE(test, ctx->vsk->recvmsg_inq);
	KUNIT_EXPECT_EQ(test, inq_set_so_inq(ctx, 1, sizeof(int)), 0);
	KUNIT_EXPECT_TRUE(test, ctx->vsk->recvmsg_inq);
	KUNIT_EXPECT_EQ(test, inq_set_so_inq(ctx, 2, sizeof(int)), -EINVAL);
	KUNIT_EXPECT_EQ(test, inq_set_so_inq(ctx, -1, sizeof(int)), -EINVAL);
	KUNIT_EXPECT_EQ(test, inq_set_so_inq(ctx, 0, sizeof(int) - 1), -EINVAL);
	KUNIT_EXPECT_TRUE(test, ctx->vsk->recvmsg_inq);
	KUNIT_EXPECT_EQ(test, inq_set_so_inq(ctx, 0, sizeof(int)), 0);
	KUNIT_EXPECT_FALSE(test, ctx->vsk->recvmsg_inq);
}

static void inq_so_inq_is_inherited(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	struct sock *child;

	KUNIT_ASSERT_EQ(test, inq_set_so_inq(ctx, 1, sizeof(int)), 0);
	child = vsock_create_connected(sk_vsock(ctx->vsk));
	KUNIT_ASSERT_NOT_NULL(test, child);
	KUNIT_EXPECT_TRUE(test, vsock_sk(child)->recvmsg_inq);
	sock_put(child);
}

/* Receive one byte with a control buffer, as recvmsg() does. */
static int inq_recv_cmsg(struct inq_ctx *ctx, struct msghdr *msg, void *control,
			 size_t len)
{
	u8 byte;
	struct kvec vec = { .iov_base = &byte, .iov_len = 1 };

	msg->msg_control = control;
	msg->msg_controllen = len;

	return kernel_recvmsg(ctx->sock, msg, &vec, 1, 1, MSG_DONTWAIT);
}

static void inq_so_inq_message(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	struct msghdr msg = { .msg_inq = UNTOUCHED };
	union inq_control control = {};
	struct cmsghdr *cmsg = &control.cmsg;

	KUNIT_ASSERT_EQ(test, inq_set_so_inq(ctx, 1, sizeof(int)), 0);
	ctx->has_data = 1;
	ctx->has_data_after = 8;
	KUNIT_EXPECT_EQ(test, inq_recv_cmsg(ctx, &msg, &control, sizeof(control)),
			1);
	KUNIT_EXPECT_EQ(test, msg.msg_controllen, 0);
	KUNIT_EXPECT_EQ(test, cmsg->cmsg_level, SOL_SOCKET);
	KUNIT_EXPECT_EQ(test, cmsg->cmsg_type, SCM_INQ);
	KUNIT_EXPECT_EQ(test, cmsg->cmsg_len, CMSG_LEN(sizeof(int)));
	KUNIT_EXPECT_EQ(test, *(int *)CMSG_DATA(cmsg), 8);
	/* io_uring did not ask. */
	KUNIT_EXPECT_EQ(test, msg.msg_inq, UNTOUCHED);
}

static void inq_so_inq_unknown(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	union inq_control control = {};
	struct msghdr msg = {};

	KUNIT_ASSERT_EQ(test, inq_set_so_inq(ctx, 1, sizeof(int)), 0);
	ctx->has_data = 1;
	ctx->has_data_after = -EIO;
	KUNIT_EXPECT_EQ(test, inq_recv_cmsg(ctx, &msg, &control, sizeof(control)),
			1);
	KUNIT_EXPECT_EQ(test, msg.msg_controllen, sizeof(control));
}

/* There is no room for the message: the data is what matters. */
static void inq_so_inq_no_room(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	struct msghdr msg = {};

	KUNIT_ASSERT_EQ(test, inq_set_so_inq(ctx, 1, sizeof(int)), 0);
	ctx->has_data = 1;
	KUNIT_EXPECT_EQ(test, inq_recv_cmsg(ctx, &msg, NULL, 0), 1);
	KUNIT_EXPECT_EQ(test, msg.msg_flags & MSG_CTRUNC, MSG_CTRUNC);
}

/* io_uring's question does not put a control message into a program's buffer. */
static void inq_io_uring_gets_no_message(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	struct msghdr msg = { .msg_get_inq = 1, .msg_inq = UNTOUCHED };
	union inq_control control = {};

	ctx->has_data = 1;
	ctx->has_data_after = 8;
	KUNIT_EXPECT_EQ(test, inq_recv_cmsg(ctx, &msg, &control, sizeof(control)),
			1);
	KUNIT_EXPECT_EQ(test, msg.msg_inq, 8);
	KUNIT_EXPECT_EQ(test, msg.msg_controllen, sizeof(control));
}

/* SIOCINQ writes to a user's int. */
static int inq_siocinq(struct kunit *test, struct inq_ctx *ctx)
{
	const struct proto_ops *ops = READ_ONCE(ctx->sock->ops);
	unsigned long uaddr;
	int val = UNTOUCHED;

	if (!IS_ENABLED(CONFIG_MMU))
		kunit_skip(test, "needs CONFIG_MMU");

	uaddr = kunit_vm_mmap(test, NULL, 0, PAGE_SIZE, PROT_READ | PROT_WRITE,
			      MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_NE_MSG(test, uaddr, 0, "no user memory");
	KUNIT_ASSERT_LT_MSG(test, uaddr, TASK_SIZE, "no user memory");
	KUNIT_ASSERT_EQ(test, ops->ioctl(ctx->sock, SIOCINQ, uaddr), 0);
	KUNIT_ASSERT_EQ(test, copy_from_user(&val, (void __user *)uaddr,
					     sizeof(val)), 0);

	return val;
}

static void inq_siocinq_agrees(struct kunit *test)
{
	const struct inq_left_param *p = test->param_value;
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);

	ctx->has_data = p->left;
	KUNIT_EXPECT_EQ(test, inq_siocinq(test, ctx), p->stream);
}

#ifdef CONFIG_BPF_SYSCALL
/* Put the socket into a sockmap, as far as a receive is concerned. */
static struct sk_psock *inq_sockmap(struct kunit *test, struct inq_ctx *ctx)
{
	struct sock *sk = sk_vsock(ctx->vsk);
	struct sk_psock *psock;

	psock = sk_psock_init(sk, NUMA_NO_NODE);
	KUNIT_ASSERT_FALSE(test, IS_ERR(psock));
	psock->psock_update_sk_prot = sk->sk_prot->psock_update_sk_prot;
	if (psock->psock_update_sk_prot(sk, psock, false)) {
		sk_psock_put(sk, psock);
		KUNIT_FAIL_AND_ABORT(test, "the socket takes no psock");
	}

	return psock;
}

/* Pass @len bytes on to the socket, at most a page, as a verdict program does. */
static void inq_pass(struct kunit *test, struct sk_psock *psock, size_t len)
{
	struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	struct sk_msg *msg = kzalloc_obj(*msg);

	if (!page || !msg) {
		if (page)
			put_page(page);
		kfree(msg);
		sk_psock_put(psock->sk, psock);
		KUNIT_FAIL_AND_ABORT(test, "out of memory");
	}

	sk_msg_init(msg);
	sk_msg_page_add(msg, page, len, 0);
	put_page(page);
	sk_mem_charge(psock->sk, len);
	atomic_add(len, &psock->sk->sk_rmem_alloc);
	sk_psock_queue_msg(psock, msg);
}

/* One byte is taken from the psock, the rest counts as what is queued does. */
static void inq_sockmap_data_left(struct kunit *test)
{
	const struct inq_type_param *p = test->param_value;
	struct inq_ctx *ctx = inq_connect_param(test);
	struct sk_psock *psock = inq_sockmap(test, ctx);
	int inq;

	inq_pass(test, psock, 100);
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), 1);
	KUNIT_EXPECT_EQ(test, inq, p->type == SOCK_STREAM ? 99 : 1);

	ctx->has_data = 8;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), 1);
	KUNIT_EXPECT_EQ(test, inq, p->type == SOCK_STREAM ? 106 : 1);
	sk_psock_put(sk_vsock(ctx->vsk), psock);
}

static void inq_sockmap_siocinq(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	struct sk_psock *psock = inq_sockmap(test, ctx);
	int ret;

	ctx->has_data = 8;
	inq_pass(test, psock, 100);
	ret = inq_siocinq(test, ctx);
	sk_psock_put(sk_vsock(ctx->vsk), psock);
	KUNIT_EXPECT_EQ(test, ret, 108);
}

static void inq_sockmap_zero_length(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	struct sk_psock *psock = inq_sockmap(test, ctx);
	int inq;

	inq_pass(test, psock, 100);
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 0, 0, &inq), 0);
	KUNIT_EXPECT_EQ(test, inq, 100);
	sk_psock_put(sk_vsock(ctx->vsk), psock);
}

static void inq_sockmap_error_queue(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	struct sk_psock *psock = inq_sockmap(test, ctx);
	int inq;

	inq_pass(test, psock, 100);
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, MSG_ERRQUEUE, &inq), -EAGAIN);
	KUNIT_EXPECT_EQ(test, inq, UNTOUCHED);
	sk_psock_put(sk_vsock(ctx->vsk), psock);
}

/* The last byte of the psock says that the end comes next, and it does. */
static void inq_sockmap_end(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	struct sk_psock *psock = inq_sockmap(test, ctx);
	int inq;

	inq_pass(test, psock, 1);
	ctx->vsk->peer_shutdown = SHUTDOWN_MASK;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), 1);
	KUNIT_EXPECT_EQ(test, inq, 1);
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), 0);
	KUNIT_EXPECT_EQ(test, inq, 1);
	sk_psock_put(sk_vsock(ctx->vsk), psock);
}

static void inq_sockmap_error(struct kunit *test)
{
	struct inq_ctx *ctx = inq_connect(test, SOCK_STREAM);
	struct sk_psock *psock = inq_sockmap(test, ctx);
	int inq;

	sk_vsock(ctx->vsk)->sk_err = ECONNRESET;
	KUNIT_EXPECT_EQ(test, inq_recv(ctx, 1, 0, &inq), -ECONNRESET);
	KUNIT_EXPECT_EQ(test, inq, UNTOUCHED);
	sk_psock_put(sk_vsock(ctx->vsk), psock);
}

#endif /* CONFIG_BPF_SYSCALL */

static struct kunit_case inq_cases[] = {
	KUNIT_CASE_PARAM(inq_stream_left, inq_left_gen_params),
	KUNIT_CASE_PARAM(inq_seqpacket_left, inq_left_gen_params),
	KUNIT_CASE_PARAM(inq_transport_cannot_tell, inq_unknown_gen_params),
	KUNIT_CASE_PARAM(inq_drained_and_ended, inq_ended_gen_params),
	KUNIT_CASE(inq_ended_with_data_left),
	KUNIT_CASE_PARAM(inq_end_of_file, inq_type_gen_params),
	KUNIT_CASE_PARAM(inq_local_shutdown, inq_type_gen_params),
	KUNIT_CASE(inq_connection_done),
	KUNIT_CASE_PARAM(inq_closed_meanwhile, inq_type_gen_params),
	KUNIT_CASE_PARAM(inq_transport_gone, inq_type_gen_params),
	KUNIT_CASE_PARAM(inq_transport_goes_meanwhile, inq_type_gen_params),
	KUNIT_CASE_PARAM(inq_peek, inq_type_gen_params),
	KUNIT_CASE(inq_truncated),
	KUNIT_CASE_PARAM(inq_zero_length, inq_type_gen_params),
	KUNIT_CASE(inq_below_low_water_mark),
	KUNIT_CASE(inq_recv_from_large_queue),
	KUNIT_CASE(inq_failed_would_block),
	KUNIT_CASE(inq_failed_out_of_band),
	KUNIT_CASE(inq_failed_unconnected),
	KUNIT_CASE(inq_failed_with_error),
	KUNIT_CASE(inq_error_queue),
	KUNIT_CASE(inq_not_asked),
	KUNIT_CASE(inq_so_inq_values),
	KUNIT_CASE(inq_so_inq_is_inherited),
	KUNIT_CASE(inq_so_inq_message),
	KUNIT_CASE(inq_so_inq_unknown),
	KUNIT_CASE(inq_so_inq_no_room),
	KUNIT_CASE(inq_io_uring_gets_no_message),
	KUNIT_CASE_PARAM(inq_siocinq_agrees, inq_left_gen_params),
#ifdef CONFIG_BPF_SYSCALL
	KUNIT_CASE_PARAM(inq_sockmap_data_left, inq_type_gen_params),
	KUNIT_CASE(inq_sockmap_siocinq),
	KUNIT_CASE(inq_sockmap_zero_length),
	KUNIT_CASE(inq_sockmap_error_queue),
	KUNIT_CASE(inq_sockmap_end),
	KUNIT_CASE(inq_sockmap_error),
#endif
	{}
};

static struct kunit_suite inq_suite = {
	.name = "vsock_inq",
	.init = inq_init,
	.exit = inq_exit,
	.test_cases = inq_cases,
};

kunit_test_suite(inq_suite);

MODULE_DESCRIPTION("KUnit tests for the receive-queue hint of AF_VSOCK");
MODULE_LICENSE("GPL");
