/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef VSOCK_URING_INQ_H
#define VSOCK_URING_INQ_H

#include <stddef.h>

#include "util.h"

/* Ends with an empty element, as run_tests() wants it. */
extern const struct test_case vsock_uring_inq_cases[];
extern const size_t vsock_uring_inq_cases_len;

#endif /* VSOCK_URING_INQ_H */
