// SPDX-License-Identifier: GPL-2.0-only
/*
 * The first process of a test guest: makes a usable system on a read-only
 * root, runs one command, reports how it ended and switches the guest off.
 *
 * tools/guest writes the job file and names it in the environment variable
 * NETZC_JOB (a word NAME=VALUE on the kernel command line that the kernel does
 * not know ends in init's environment).  The file holds NUL-terminated entries:
 *
 *	token=WORD	precedes the report, so that nothing prints it by accident
 *	out=PATH	terminal for the command's output
 *	interactive=1	the terminal is for a person: controlling, not raw
 *	end=halt|reboot	how the guest ends
 *	leaks=1		scan for leaked memory after the command (kmemleak)
 *	address=A.B.C.D	of the network card eth0, in a network of 24 bits
 *	share=DIR	the writable 9p share of the host, at the place that it has there
 *	keep=DIR	stays visible below a directory that a tmpfs covers
 *	cwd=DIR		working directory of the command
 *	env=NAME=VALUE	environment of the command
 *	arg=STRING	one word of the command
 *
 * The report is one line of the kernel log: "WORD exit N" or "WORD setup TEXT".
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <net/if.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define MAX_WORDS 256
#define LEAKS "/sys/kernel/debug/kmemleak"

static struct {
	const char *token, *out, *end, *cwd, *address, *share;
	const char *keep[MAX_WORDS];
	char *env[MAX_WORDS], *arg[MAX_WORDS];
	int nkeep, nenv, narg, interactive, leaks;
} job = { .token = "netzc", .end = "halt", .cwd = "/" };

static void report(const char *fmt, ...)
{
	char text[512], line[640];
	int fd, len;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	len = snprintf(line, sizeof(line), "<1>%s %s\n", job.token, text);
	fd = open("/dev/kmsg", O_WRONLY);
	if (fd < 0 || write(fd, line, len) != len)
		dprintf(2, "%s %s\n", job.token, text);
	if (fd >= 0)
		close(fd);
}

static void switch_off(void)
{
	sync();
	reboot(strcmp(job.end, "reboot") ? LINUX_REBOOT_CMD_POWER_OFF
					 : LINUX_REBOOT_CMD_RESTART);
	for (;;)
		pause();
}

static void give_up(const char *what)
{
	report("setup %s: %s", what, strerror(errno));
	switch_off();
}

static int value_of(const char *entry, const char *key, const char **value)
{
	size_t n = strlen(key);

	if (strncmp(entry, key, n) || entry[n] != '=')
		return 0;
	*value = entry + n + 1;
	return 1;
}

static void read_job(const char *path)
{
	static char text[1 << 18];
	size_t used = 0;
	ssize_t n;
	char *p;
	int fd;

	fd = path ? open(path, O_RDONLY) : -1;
	if (fd < 0)
		give_up("job file");
	while ((n = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
		used += n;
	close(fd);

	for (p = text; p < text + used; p += strlen(p) + 1) {
		const char *v;

		if (value_of(p, "token", &v))
			job.token = v;
		else if (value_of(p, "out", &v))
			job.out = v;
		else if (value_of(p, "end", &v))
			job.end = v;
		else if (value_of(p, "cwd", &v))
			job.cwd = v;
		else if (value_of(p, "address", &v))
			job.address = v;
		else if (value_of(p, "share", &v))
			job.share = v;
		else if (value_of(p, "interactive", &v))
			job.interactive = atoi(v);
		else if (value_of(p, "leaks", &v))
			job.leaks = atoi(v);
		else if (value_of(p, "keep", &v) && job.nkeep < MAX_WORDS)
			job.keep[job.nkeep++] = v;
		else if (value_of(p, "env", &v) && job.nenv < MAX_WORDS - 1)
			job.env[job.nenv++] = (char *)v;
		else if (value_of(p, "arg", &v) && job.narg < MAX_WORDS - 1)
			job.arg[job.narg++] = (char *)v;
	}
	if (!job.out || !job.narg) {
		errno = EINVAL;
		give_up("job file without a command");
	}
}

static void must_mount(const char *type, const char *where, const char *options)
{
	mkdir(where, 0755);
	if (mount(type, where, type, 0, options))
		give_up(where);
}

/* For what only some kernels have. */
static void may_mount(const char *type, const char *where)
{
	mkdir(where, 0755);
	mount(type, where, type, 0, NULL);
}

static int is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return !strncmp(path, dir, n) && (path[n] == '/' || !path[n]);
}

static void make_dirs(char *path)
{
	char *p;

	for (p = path + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
	mkdir(path, 0755);
}

/*
 * A directory to keep that lies below /tmp, say, is bound in from a second
 * view of the root.
 */
static void cover(const char *where, const char *options)
{
	char from[4096], to[4096];
	int i;

	must_mount("tmpfs", where, options);
	for (i = 0; i < job.nkeep; i++) {
		if (!is_below(job.keep[i], where) || !job.keep[i][strlen(where)])
			continue;
		snprintf(from, sizeof(from), "/run/host%s", job.keep[i]);
		snprintf(to, sizeof(to), "%s", job.keep[i]);
		make_dirs(to);
		if (mount(from, to, NULL, MS_BIND, NULL))
			give_up(job.keep[i]);
	}
}

static void mount_all(void)
{
	must_mount("proc", "/proc", NULL);
	must_mount("sysfs", "/sys", NULL);
	must_mount("devtmpfs", "/dev", "mode=755");
	must_mount("devpts", "/dev/pts", "mode=620,ptmxmode=666");
	if (symlink("/proc/self/fd", "/dev/fd") && errno != EEXIST)
		give_up("/dev/fd");
	/* /run hides what the host has there before the root shows up in it. */
	must_mount("tmpfs", "/run", "mode=755");
	mkdir("/run/host", 0755);
	if (mount("/", "/run/host", NULL, MS_BIND, NULL))
		give_up("/run/host");
	cover("/dev/shm", "mode=1777");
	cover("/tmp", "mode=1777");
	cover("/var/tmp", "mode=1777");
	may_mount("debugfs", "/sys/kernel/debug");
	may_mount("tracefs", "/sys/kernel/tracing");
	may_mount("cgroup2", "/sys/fs/cgroup");
}

static void mount_share(void)
{
	char dir[4096];

	snprintf(dir, sizeof(dir), "%s", job.share);
	make_dirs(dir);
	if (mount("share", dir, "9p", 0,
		  "trans=virtio,version=9p2000.L,msize=262144"))
		give_up(dir);
}

static void network_up(void)
{
	struct ifreq ifr = { .ifr_name = "eth0" };
	struct sockaddr_in *in = (struct sockaddr_in *)&ifr.ifr_addr;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	in->sin_family = AF_INET;
	in->sin_addr.s_addr = inet_addr(job.address);
	if (fd < 0 || ioctl(fd, SIOCSIFADDR, &ifr))
		give_up("eth0");
	in->sin_addr.s_addr = htonl(0xffffff00);
	if (ioctl(fd, SIOCSIFNETMASK, &ifr))
		give_up("eth0");
	ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	if (ioctl(fd, SIOCSIFFLAGS, &ifr))
		give_up("eth0");
	close(fd);
}

static void loopback_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	ifr.ifr_flags = IFF_UP;
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr))
		give_up("lo");
	close(fd);
}

static int open_terminal(void)
{
	struct termios t;
	int fd = open(job.out, O_RDWR | O_NOCTTY);

	if (fd < 0)
		give_up(job.out);
	if (!job.interactive && !tcgetattr(fd, &t)) {
		cfmakeraw(&t);
		tcsetattr(fd, TCSANOW, &t);
	}
	return fd;
}

static int run(int terminal)
{
	int status = 0, null;
	pid_t pid, gone;

	pid = fork();
	if (pid < 0)
		give_up("fork");
	if (!pid) {
		setsid();
		null = open("/dev/null", O_RDONLY);
		if (job.interactive)
			ioctl(terminal, TIOCSCTTY, 0);
		dup2(job.interactive ? terminal : null, 0);
		dup2(terminal, 1);
		dup2(terminal, 2);
		close(terminal);
		close(null);
		if (chdir(job.cwd)) {
			dprintf(2, "%s: %s\n", job.cwd, strerror(errno));
			_exit(127);
		}
		environ = job.env;
		execvp(job.arg[0], job.arg);
		dprintf(2, "%s: %s\n", job.arg[0], strerror(errno));
		_exit(127);
	}
	/* Orphans end here too. */
	do {
		gone = wait(&status);
	} while (gone != pid && (gone > 0 || errno == EINTR));
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void leaks_write(const char *word)
{
	int fd = open(LEAKS, O_WRONLY);

	if (fd < 0)
		return;
	if (write(fd, word, strlen(word)) < 0)
		report("setup kmemleak refuses '%s'", word);
	close(fd);
}

/*
 * An object counts as leaked once it is five seconds old and two scans found
 * nothing that points at it.  What is found goes to the kernel log.
 */
static void find_leaks(void)
{
	char line[512];
	FILE *in, *out;

	if (access(LEAKS, R_OK)) {
		report("setup no kmemleak in this kernel");
		return;
	}
	leaks_write("scan");
	sleep(6);
	leaks_write("scan");
	in = fopen(LEAKS, "r");
	out = fopen("/dev/kmsg", "w");
	if (!in || !out) {
		report("setup kmemleak cannot be read");
		return;
	}
	setvbuf(out, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), in))
		fprintf(out, "<1>kmemleak: %s", line);
	fclose(in);
	fclose(out);
}

int main(void)
{
	int fd, terminal, status;

	/* The kernel may have had no console to give. */
	fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd < 2)
		fd = dup(fd);

	read_job(getenv("NETZC_JOB"));
	mount_all();
	/* Many lines in a row are to reach the log, not to be rationed. */
	fd = open("/proc/sys/kernel/printk_devkmsg", O_WRONLY);
	if (fd >= 0) {
		if (write(fd, "on\n", 3) < 0)
			report("setup printk_devkmsg: %s", strerror(errno));
		close(fd);
	}
	if (sethostname("netzc", 5))
		give_up("host name");
	loopback_up();
	if (job.address)
		network_up();
	if (job.share)
		mount_share();
	terminal = open_terminal();
	status = run(terminal);
	tcdrain(terminal);
	if (job.leaks)
		find_leaks();
	report("exit %d", status);
	switch_off();
	return 0;
}
