/* SPDX-License-Identifier: BSD-2-Clause */
/* Loads on a network card: numbered records over TCP, of which none may be lost or doubled, beside
 * numbered packets over UDP, of which some may. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "lab/guest/load.h"

#define STREAM_PORT  5001
#define PACKET_PORT  5002
#define PACE_NS      2000000u
#define WORDS        14u
#define DRAIN_MS     60000
#define QUIET_NS     1000000000ull
#define PACKETS_KEPT (1u << 20)

struct message {
	uint64_t number;
	uint64_t words[WORDS];
	uint64_t sum;
};

static void message_fill(struct message *m, uint64_t number)
{
	m->number = number;
	m->sum = pattern_fill(m->words, WORDS, number);
}

static bool message_is_right(const struct message *m)
{
	struct message want;

	message_fill(&want, m->number);
	return memcmp(&want, m, sizeof(want)) == 0;
}

static int make_socket(int type, int port, const char *to)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (to != NULL && inet_pton(AF_INET, to, &address.sin_addr) != 1)
		give_up(to);
	if (fd < 0 || (to == NULL ? bind(fd, (struct sockaddr *)&address, sizeof(address))
	                          : connect(fd, (struct sockaddr *)&address, sizeof(address))) != 0)
		give_up(type == SOCK_STREAM ? "the stream's socket" : "the packets' socket");
	return fd;
}

/* ---- sending --------------------------------------------------------------------------------- */

static void *send_packets(void *argument)
{
	int fd = make_socket(SOCK_DGRAM, PACKET_PORT, argument);
	static uint64_t sent;
	struct message m;

	while (!over) {
		message_fill(&m, sent + 1);
		/* Refused for now (nobody answers for the address) is not sent. */
		if (send(fd, &m, sizeof(m), 0) == (ssize_t)sizeof(m))
			sent++;
		sleep_ns(PACE_NS);
	}
	close(fd);
	return &sent;
}

static bool send_all(int fd, const struct message *m)
{
	size_t done = 0;

	while (done < sizeof(*m)) {
		ssize_t n = send(fd, (const char *)m + done, sizeof(*m) - done, 0);

		if (n < 0 && errno != EINTR)
			return false;
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* The receiver closes when it has all. */
static void drain(int fd, struct seen *seen)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	char byte;

	shutdown(fd, SHUT_WR);
	if (poll(&ready, 1, DRAIN_MS) != 1 || recv(fd, &byte, 1, 0) != 0)
		seen_error(seen, "the receiver did not say that it has all");
	close(fd);
}

void load_send(int argc, char **argv, struct seen *seen)
{
	int fd = make_socket(SOCK_STREAM, STREAM_PORT, argc == 1 ? argv[0] : "");
	pthread_t packets;
	struct message m;
	void *sent;
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (pthread_create(&packets, NULL, send_packets, argv[0]) != 0)
		give_up("no thread");
	while (!over) {
		uint64_t start = now_ns();

		message_fill(&m, seen->records + 1);
		if (!send_all(fd, &m)) {
			seen_error(seen, "the stream");
			break;
		}
		seen->records++;
		seen_time(seen, start);
		sleep_ns(PACE_NS);
	}
	pthread_join(packets, &sent);
	drain(fd, seen);
	seen->packets = *(uint64_t *)sent;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static uint8_t had[PACKETS_KEPT / 8];

static void packet_take(const struct message *m, uint64_t *highest, struct seen *seen)
{
	uint64_t n = m->number;

	if (!message_is_right(m) || n >= PACKETS_KEPT) {
		seen_bad(seen, "a packet is not what was sent", n);
		return;
	}
	if (had[n / 8] & 1u << n % 8) {
		seen->doubled++;
		return;
	}
	had[n / 8] = (uint8_t)(had[n / 8] | 1u << n % 8);
	seen->packets++;
	seen->late += n < *highest;
	if (n > *highest)
		*highest = n;
}

/* Until told to end, and until none came for a while after that. */
static void *receive_packets(void *argument)
{
	int fd = make_socket(SOCK_DGRAM, PACKET_PORT, NULL);
	struct timeval limit = {.tv_usec = 100000};
	uint64_t highest = 0, last_ns = now_ns();
	struct seen *seen = argument;
	struct message m;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	while (!over || now_ns() - last_ns < QUIET_NS) {
		if (recv(fd, &m, sizeof(m), 0) != (ssize_t)sizeof(m))
			continue;
		last_ns = now_ns();
		packet_take(&m, &highest, seen);
	}
	close(fd);
	return NULL;
}

/* Each record is the one after the one before. The longest pause between two is the stall. */
static void receive_stream(int fd, struct seen *seen)
{
	struct message m;
	uint64_t start = now_ns();

	while (recv(fd, &m, sizeof(m), MSG_WAITALL) == (ssize_t)sizeof(m)) {
		seen_time(seen, start);
		start = now_ns();
		if (m.number != seen->records + 1 || !message_is_right(&m))
			seen_bad(seen, "a record of the stream is not the next one", m.number);
		seen->records++;
		seen->checked++;
	}
}

void load_receive(int argc, char **argv, struct seen *seen)
{
	int listener = make_socket(SOCK_STREAM, STREAM_PORT, NULL), fd;
	struct seen packets = {0};
	pthread_t thread;

	(void)argc, (void)argv;
	if (listen(listener, 1) != 0 ||
	        pthread_create(&thread, NULL, receive_packets, &packets) != 0)
		give_up("the stream's socket");
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		give_up("accept");
	receive_stream(fd, seen);
	close(fd);
	close(listener);
	while (!over)
		sleep_ns(PACE_NS);
	pthread_join(thread, NULL);
	seen_add(seen, &packets);
}

/* ---- announcements --------------------------------------------------------------------------- */

#define ETHERTYPE_RARP 0x8035

/* "records": reverse ARP requests in which a station announces itself (RFC 903). Each is printed
 * with the address it is from. */
void load_hear(int argc, char **argv, struct seen *seen)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETHERTYPE_RARP));
	struct timeval limit = {.tv_usec = 100000};
	uint8_t frame[1600];

	(void)argc, (void)argv;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) != 0)
		give_up("a packet socket");
	while (!over) {
		ssize_t n = recv(fd, frame, sizeof(frame), 0);

		if (n < 42)
			continue;
		/* Broadcast, opcode 3, the same address as sender and as hardware. */
		if (memcmp(frame, "\xff\xff\xff\xff\xff\xff", 6) != 0 || frame[21] != 3 ||
		        memcmp(frame + 6, frame + 22, 6) != 0)
			seen_bad(seen, "not an announcement, bytes", (uint64_t)n);
		seen->records++;
		printf("heard %02x:%02x:%02x:%02x:%02x:%02x\n", frame[6], frame[7], frame[8],
		        frame[9], frame[10], frame[11]);
	}
	close(fd);
}
