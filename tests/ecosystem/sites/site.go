// The site on Go's net/http: ports for HTTP and HTTPS, certificate, how long connections are kept, file of /big, of /gzip.
package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

func read(path string) []byte {
	data, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return data
}

func main() {
	kept, err := time.ParseDuration(os.Args[4])
	if err != nil {
		panic(err)
	}
	big, zipped := read(os.Args[5]), read(os.Args[6])
	site := func(w http.ResponseWriter, r *http.Request) {
		_, port, _ := net.SplitHostPort(r.RemoteAddr)
		w.Header().Set("X-Port", port)
		if r.TLS != nil {
			w.Header().Set("X-Resumed", fmt.Sprint(r.TLS.DidResume))
		}
		switch r.URL.Path {
		case "/hello":
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"hello":"world"}`)
		case "/big":
			w.Header().Set("ETag", `"big-1"`)
			w.Header().Set("Content-Type", "application/octet-stream")
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(big))
		case "/gzip":
			if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
				w.Header().Set("Content-Encoding", "gzip")
				w.Header().Set("Content-Type", "text/plain")
				w.Write(zipped)
			}
		case "/echo":
			digest := sha256.New()
			length, _ := io.Copy(digest, r.Body)
			fmt.Fprintf(w, "%d %x", length, digest.Sum(nil))
		case "/early":
			w.Header().Set("Connection", "close")
			w.WriteHeader(413)
			io.WriteString(w, "too much")
		default:
			w.WriteHeader(404)
		}
	}
	secured := &http.Server{Addr: "127.0.0.1:" + os.Args[2], Handler: http.HandlerFunc(site), IdleTimeout: kept}
	secured.TLSConfig = &tls.Config{NextProtos: []string{"http/1.1"}}
	go func() { panic(secured.ListenAndServeTLS(os.Args[3], os.Args[3])) }()
	plain := &http.Server{Addr: "127.0.0.1:" + os.Args[1], Handler: http.HandlerFunc(site), IdleTimeout: kept}
	panic(plain.ListenAndServe())
}
