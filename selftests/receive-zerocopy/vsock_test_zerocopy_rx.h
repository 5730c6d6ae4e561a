/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VSOCK_TEST_ZEROCOPY_RX_H
#define VSOCK_TEST_ZEROCOPY_RX_H

#include "util.h"

void test_stream_zcrx_example_client(const struct test_opts *opts);
void test_stream_zcrx_example_server(const struct test_opts *opts);
void test_seqpacket_zcrx_example_client(const struct test_opts *opts);
void test_seqpacket_zcrx_example_server(const struct test_opts *opts);
void test_stream_zcrx_errors_client(const struct test_opts *opts);
void test_stream_zcrx_errors_server(const struct test_opts *opts);
void test_seqpacket_zcrx_errors_client(const struct test_opts *opts);
void test_seqpacket_zcrx_errors_server(const struct test_opts *opts);
void test_stream_zcrx_random_client(const struct test_opts *opts);
void test_stream_zcrx_random_server(const struct test_opts *opts);
void test_seqpacket_zcrx_random_client(const struct test_opts *opts);
void test_seqpacket_zcrx_random_server(const struct test_opts *opts);
void test_stream_zcrx_mixed_client(const struct test_opts *opts);
void test_stream_zcrx_mixed_server(const struct test_opts *opts);
void test_seqpacket_zcrx_mixed_client(const struct test_opts *opts);
void test_seqpacket_zcrx_mixed_server(const struct test_opts *opts);
void test_stream_zcrx_eof_client(const struct test_opts *opts);
void test_stream_zcrx_eof_server(const struct test_opts *opts);
void test_seqpacket_zcrx_eof_client(const struct test_opts *opts);
void test_seqpacket_zcrx_eof_server(const struct test_opts *opts);
void test_stream_zcrx_late_client(const struct test_opts *opts);
void test_stream_zcrx_late_server(const struct test_opts *opts);
void test_seqpacket_zcrx_late_client(const struct test_opts *opts);
void test_seqpacket_zcrx_late_server(const struct test_opts *opts);
void test_stream_zcrx_alone_client(const struct test_opts *opts);
void test_stream_zcrx_alone_server(const struct test_opts *opts);
void test_seqpacket_zcrx_alone_client(const struct test_opts *opts);
void test_seqpacket_zcrx_alone_server(const struct test_opts *opts);
void test_stream_zcrx_flood_client(const struct test_opts *opts);
void test_stream_zcrx_flood_server(const struct test_opts *opts);
void test_stream_zcrx_msgzcopy_client(const struct test_opts *opts);
void test_stream_zcrx_msgzcopy_server(const struct test_opts *opts);
void test_seqpacket_zcrx_msgzcopy_client(const struct test_opts *opts);
void test_seqpacket_zcrx_msgzcopy_server(const struct test_opts *opts);
void test_seqpacket_zcrx_sizes_client(const struct test_opts *opts);
void test_seqpacket_zcrx_sizes_server(const struct test_opts *opts);

#endif /* VSOCK_TEST_ZEROCOPY_RX_H */
