// Go's echo servers: net, crypto/tls, net/http; a goroutine for each connection. Run with GOMAXPROCS=1.
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
)

var form = flag.String("form", "protocol", "")
var family = flag.String("family", "tcp", "")
var path = flag.String("path", "", "")
var pem = flag.String("tls", "", "")
var size = flag.Int("size", 1024, "")
var loop = flag.String("loop", "", "")

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
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Write(body)
		return
	}
	count, err := strconv.Atoi(r.URL.Path[1:])
	if err != nil {
		http.NotFound(w, r)
		return
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
