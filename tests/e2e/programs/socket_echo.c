/* SPDX-License-Identifier: Apache-2.0
 * A program that knows of sockets alone, for librspreload: a server that sends one message back, or
 * its client, which prints what comes.
 *
 * usage: socket_echo PORT [SERVER_ADDRESS] */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char message[64];

static void require(int holds, const char* what) {
  if (holds) return;
  perror(what);
  exit(1);
}

static void serve(int listener, struct sockaddr_in* address) {
  require(!bind(listener, (struct sockaddr*)address, sizeof(*address)), "bind");
  require(!listen(listener, 4), "listen");
  const int connection = accept(listener, NULL, NULL);
  require(connection >= 0, "accept");
  const ssize_t received = recv(connection, message, sizeof(message), 0);
  require(received > 0, "recv");
  require(send(connection, message, (size_t)received, 0) == received, "send");
  require(recv(connection, message, 1, 0) == 0, "recv of the end");
  close(connection);
}

static void ask(int socket_fd, struct sockaddr_in* address) {
  static const char text[] = "over rsockets";
  require(!connect(socket_fd, (struct sockaddr*)address, sizeof(*address)), "connect");
  require(send(socket_fd, text, sizeof(text), 0) == sizeof(text), "send");
  require(recv(socket_fd, message, sizeof(message), 0) == sizeof(text), "recv");
  puts(message);
}

int main(int argc, char** argv) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  const int socket_fd = socket(AF_INET, SOCK_STREAM, 0);
  require(argc > 1 && socket_fd >= 0, "usage: socket_echo PORT [SERVER_ADDRESS]");
  address.sin_port = htons((uint16_t)atoi(argv[1]));
  if (argc == 2) {
    serve(socket_fd, &address);
  } else {
    require(inet_pton(AF_INET, argv[2], &address.sin_addr) == 1, argv[2]);
    ask(socket_fd, &address);
  }
  close(socket_fd);
  return 0;
}
