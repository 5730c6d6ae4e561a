/* SPDX-License-Identifier: GPL-2.0-only */
/* What the benchmarks share: options, and the counts of kernel events. */

#include <err.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROFILE		"/sys/kernel/tracing/kprobe_profile"

/* Hits so far of an event that the caller has put into tracefs. */
static inline unsigned long profile_hits(const char *event)
{
	unsigned long hit, missed;
	char name[64];
	FILE *f = fopen(PROFILE, "r");

	if (!f)
		err(1, "%s", PROFILE);
	while (fscanf(f, "%63s %lu %lu", name, &hit, &missed) == 3) {
		if (strcmp(name, event))
			continue;
		if (missed)
			errx(1, "event %s missed %lu hits", name, missed);
		fclose(f);
		return hit;
	}
	errx(1, "%s has no event %s", PROFILE, event);
}

/* The number that an option says, from @min to @max. */
static inline unsigned long number(const char *s, unsigned long min,
				   unsigned long max)
{
	char *end;
	unsigned long n = strtoul(s, &end, 10);

	if (!*s || *end || n < min || n > max)
		errx(1, "bad number: %s", s);
	return n;
}

/* Which of @n names an option says. */
static inline int name(const char *s, const char * const *names, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!strcmp(s, names[i]))
			return i;
	errx(1, "unknown: %s", s);
}
