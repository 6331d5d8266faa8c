// Go's client against the site: keep-alive, chunked upload, 100 Continue, stream. Prints "right" at the end.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func check(is bool, what string) {
	if !is {
		panic(what)
	}
}

func read(answer *http.Response, err error) string {
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func main() {
	base := os.Args[1]
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: 20 * time.Second}}
	for round := 0; round < 20; round++ {
		check(read(client.Get(base+"/text")) == "hello", "text")
		check(read(client.Get(base+"/stream")) == "data: 0\n\ndata: 1\n\ndata: 2\n\n", "stream")
		body := io.MultiReader(strings.NewReader("ab"), strings.NewReader("c"))
		check(read(client.Post(base+"/echo", "text/plain", body)) == "abc", "chunked")
		request, err := http.NewRequest("POST", base+"/echo", strings.NewReader("expected"))
		check(err == nil, "request")
		request.Header.Set("Expect", "100-continue")
		check(read(client.Do(request)) == "expected", "expect")
		answer, err := client.Head(base + "/text")
		check(read(answer, err) == "" && answer.ContentLength == 5, "head")
	}
	fmt.Println("right")
}
