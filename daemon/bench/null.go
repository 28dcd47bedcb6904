package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
)

// nullServerArg makes this program serve the null handler: the limit that net/http,
// the kernel and the client set, without a filter.
const nullServerArg = "null-server"

func serveNull() {
	half := strings.Repeat(`"`+urlPattern+`",`, batch/2)
	answer := []byte(`{"uri_list":[` + half[:len(half)-1] + `],"total":1000,"duplicates":500}`)
	bodies := sync.Pool{New: func() any { b := make([]byte, 1<<20); return &b }}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /api/v1/filter", func(w http.ResponseWriter, r *http.Request) {
		body := bodies.Get().(*[]byte)
		defer bodies.Put(body)
		if _, err := io.ReadFull(r.Body, (*body)[:r.ContentLength]); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer)
	})
	if err := http.ListenAndServe(os.Args[2], mux); err != nil {
		fmt.Fprintln(os.Stderr, "null server:", err)
		os.Exit(1)
	}
}
