// Go's crypto/tls as a peer; the command line is that of echo.py.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
)

var versions = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

func must(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	must("number", err)
	return value
}

func content(size int) []byte {
	data := make([]byte, size)
	for index := range data {
		data[index] = byte(128 + index%127*31%127)
	}
	return data
}

func echo(conn net.Conn, limit int) {
	defer conn.Close()
	buffer := make([]byte, 1<<16)
	for count := 0; limit == 0 || count < limit; {
		got, err := conn.Read(buffer)
		if got > 0 {
			count += got
			if _, err := conn.Write(buffer[:got]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func serve(pem, version string, limit int) {
	certificate, err := tls.LoadX509KeyPair(pem, pem)
	must("certificate", err)
	listener, err := tls.Listen("tcp4", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{certificate},
		MinVersion:   versions[version],
		MaxVersion:   versions[version],
	})
	must("listen", err)
	fmt.Printf("ready %d\n", listener.Addr().(*net.TCPAddr).Port)
	for {
		conn, err := listener.Accept()
		must("accept", err)
		go echo(conn, limit)
	}
}

func call(port, authority, version string, count int, closer string, sizes []string) {
	pem, err := os.ReadFile(authority)
	must("authority", err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	config := &tls.Config{
		RootCAs:    pool,
		ServerName: "localhost",
		MinVersion: versions[version],
		MaxVersion: versions[version],
	}
	for range count {
		conn, err := tls.Dial("tcp4", "127.0.0.1:"+port, config)
		must("dial", err)
		for _, size := range sizes {
			data := content(number(size))
			answer := make([]byte, len(data))
			written := make(chan error, 1)
			go func() {
				_, err := conn.Write(data)
				written <- err
			}()
			_, err := io.ReadFull(conn, answer)
			must("read", err)
			must("write", <-written)
			if !bytes.Equal(answer, data) {
				must("answer", fmt.Errorf("wrong answer to %s bytes", size))
			}
		}
		if closer == "server" {
			if got, err := conn.Read(make([]byte, 1)); got != 0 || err != io.EOF {
				must("close", fmt.Errorf("%d bytes, %v", got, err))
			}
		}
		must("close", conn.Close())
	}
	fmt.Println("ok")
}

func main() {
	arguments := os.Args[1:]
	if arguments[0] == "server" {
		serve(arguments[1], arguments[2], number(arguments[3]))
	} else {
		call(arguments[1], arguments[2], arguments[3], number(arguments[4]), arguments[5], arguments[6:])
	}
}
