// Go's net/http as a client: a goroutine for each request that is under way. Run with GOMAXPROCS=1.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

var port = flag.Int("port", 0, "")
var size = flag.Int("size", 1024, "of the answer")
var upload = flag.Int("upload", 0, "length of the request's body; 0: a GET")
var atOnce = flag.Int("at-once", 1, "")
var mode = flag.String("mode", "whole", "whole or streamed")
var authority = flag.String("tls", "", "PEM of the certificate authority")
var fresh = flag.Bool("fresh", false, "a URL of its own for each request")
var warmup = flag.Float64("warmup", 0.1, "seconds")
var duration = flag.Float64("duration", 1, "seconds; 0: one request each")

var body []byte
var url string
var number atomic.Int64

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func wrong(what string, got int) {
	fmt.Fprintln(os.Stderr, "wrong answer:", what, got)
	os.Exit(1)
}

func ask(client *http.Client, compare bool) {
	var response *http.Response
	var err error
	target := url
	if *fresh {
		target = fmt.Sprintf("%s?item=%d", url, number.Add(1))
	}
	if *upload == 0 {
		response, err = client.Get(target)
	} else {
		response, err = client.Post(target, "application/octet-stream", bytes.NewReader(body))
	}
	must(err)
	if response.StatusCode != 200 {
		wrong("status", response.StatusCode)
	}
	if *mode == "streamed" {
		count, err := io.Copy(io.Discard, response.Body)
		must(err)
		if int(count) != *size {
			wrong("length", int(count))
		}
		response.Body.Close()
		return
	}
	// io.ReadAll would begin with 512 bytes and grow; the length is known.
	got := make([]byte, response.ContentLength)
	_, err = io.ReadFull(response.Body, got)
	must(err)
	response.Body.Close()
	if len(got) != *size {
		wrong("length", len(got))
	}
	if compare && !bytes.Equal(got, bytes.Repeat([]byte("x"), *size)) {
		wrong("a byte of the body", len(got))
	}
}

// Each of the workers sends requests one after the other until the time is over.
func run(client *http.Client, workers int, seconds float64, compare bool) int {
	until := time.Now().Add(time.Duration(seconds * 1e9))
	counts := make([]int, workers)
	var group sync.WaitGroup
	for worker := range counts {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				ask(client, compare)
				counts[worker]++
				if !time.Now().Before(until) {
					return
				}
			}
		}()
	}
	group.Wait()
	sum := 0
	for _, count := range counts {
		sum += count
	}
	return sum
}

func main() {
	flag.Parse()
	body = bytes.Repeat([]byte("x"), *upload)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns = 0
	transport.MaxIdleConnsPerHost = *atOnce
	url = fmt.Sprintf("http://127.0.0.1:%d/%d", *port, *size)
	if *authority != "" {
		url = fmt.Sprintf("https://localhost:%d/%d", *port, *size)
		pem, err := os.ReadFile(*authority)
		must(err)
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, ClientSessionCache: tls.NewLRUClientSessionCache(64)}
	}
	client := &http.Client{Transport: transport}
	if *warmup > 0 {
		workers := *atOnce
		if *duration == 0 {
			workers = 1
		}
		run(client, workers, *warmup, true)
	}
	lines := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	lines.Scan()
	began := time.Now()
	requests := run(client, *atOnce, *duration, false)
	wall := time.Since(began)
	fmt.Printf("{\"requests\": %d, \"wall_ns\": %d}\n", requests, wall.Nanoseconds())
	lines.Scan()
}
