// Go's echo servers: net, crypto/tls, net/http; a goroutine for each connection. Run with GOMAXPROCS=1 in most rows.
package main

import (
	"bytes"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
)

var form = flag.String("form", "protocol", "")
var family = flag.String("family", "tcp", "")
var path = flag.String("path", "", "")
var pem = flag.String("tls", "", "")
var size = flag.Int("size", 1024, "")
var loop = flag.String("loop", "", "")

// Goroutines run on as many CPUs as GOMAXPROCS says; there are no workers.
var workers = flag.Int("workers", 1, "")

func announce(port int) { fmt.Printf("ready %d\n", port) }

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func echo(conn net.Conn) {
	defer conn.Close()
	buffer := make([]byte, 1<<17)
	if *form == "idle" {
		buffer = make([]byte, 4096)
	}
	kept := 0
	for {
		count, err := conn.Read(buffer[kept:])
		if err != nil {
			return
		}
		if *form == "pipeline" {
			have, at := kept+count, 0
			for ; at+*size <= have; at += *size {
				if _, err := conn.Write(buffer[at : at+*size]); err != nil {
					return
				}
			}
			kept = copy(buffer, buffer[at:have])
			continue
		}
		if _, err := conn.Write(buffer[:count]); err != nil || *form == "accept" {
			return
		}
	}
}

func serveDatagrams() {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(err)
	announce(conn.LocalAddr().(*net.UDPAddr).Port)
	buffer := make([]byte, 65536)
	for {
		count, from, err := conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			continue
		}
		conn.WriteToUDPAddrPort(buffer[:count], from)
	}
}

func page(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		// io.ReadAll would begin with 512 bytes and grow; the length is known.
		body := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Write(body)
		return
	}
	path, isSession := strings.CutPrefix(r.URL.Path[1:], "session/")
	count, err := strconv.Atoi(path)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	if isSession {
		cookie, err := r.Cookie("session")
		if err != nil {
			http.Error(w, "no session", http.StatusForbidden)
			return
		}
		w.Header().Set("Cache-Control", "private, no-cache")
		w.Header().Set("Vary", "Cookie, Accept-Encoding")
		w.Header().Set("Etag", `"5d8c72a5edda8"`)
		w.Header().Set("Set-Cookie", "session="+cookie.Value+"; Path=/; HttpOnly; SameSite=Lax")
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Content-Length", strconv.Itoa(count))
	w.Write(bytes.Repeat([]byte("x"), count))
}

func main() {
	flag.Parse()
	if *form == "udp" {
		serveDatagrams()
	}
	var listener net.Listener
	var err error
	port := 0
	if *family == "unix" {
		listener, err = net.Listen("unix", *path)
		must(err)
	} else {
		listener, err = net.Listen("tcp4", "127.0.0.1:0")
		must(err)
		port = listener.Addr().(*net.TCPAddr).Port
	}
	if *form == "http" && *pem != "" {
		announce(port)
		must(http.ServeTLS(listener, http.HandlerFunc(page), *pem, *pem))
	}
	if *pem != "" {
		certificate, err := tls.LoadX509KeyPair(*pem, *pem)
		must(err)
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate}})
	}
	announce(port)
	if *form == "http" {
		must(http.Serve(listener, http.HandlerFunc(page)))
	}
	for {
		conn, err := listener.Accept()
		if err == io.EOF {
			return
		}
		must(err)
		go echo(conn)
	}
}
