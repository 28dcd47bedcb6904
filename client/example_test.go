package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/client/clienttest"
)

// daemonURL stands for http://127.0.0.1:8000.
func daemonURL() string { return clienttest.NewServer(&testing.B{}).URL }

func ExampleClient_Filter() {
	c, err := client.New(daemonURL())
	if err != nil {
		log.Fatal(err)
	}
	links := []string{"https://example.com/1", "https://example.com/2", "https://example.com/1"}
	fresh, err := c.Filter(context.Background(), "uri_generator", links)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(fresh)
	fresh, err = c.Filter(context.Background(), "uri_generator", append(links, "https://example.com/3"))
	fmt.Println(fresh, err)
	// Output:
	// [https://example.com/1 https://example.com/2]
	// [https://example.com/3] <nil>
}

func ExampleFilterJSON() {
	c, err := client.New(daemonURL())
	if err != nil {
		log.Fatal(err)
	}
	type page struct {
		Site string `json:"site"`
		Page int    `json:"page"`
	}
	fresh, err := client.FilterJSON(context.Background(), c, "uri", []page{{"a", 1}, {"a", 2}, {"a", 1}})
	fmt.Println(fresh, err)
	// Output: [{a 1} {a 2}] <nil>
}

func ExampleClient_FilterLines() {
	c, err := client.New(daemonURL())
	if err != nil {
		log.Fatal(err)
	}
	in := strings.NewReader("https://example.com/1\nhttps://example.com/1\nhttps://example.com/2\n")
	total, fresh, err := c.FilterLines(context.Background(), "uri", in, os.Stdout)
	fmt.Println(total, fresh, err)
	// Output:
	// https://example.com/1
	// https://example.com/2
	// 3 2 <nil>
}

func ExampleClient_Check() {
	c, err := client.New(daemonURL())
	if err != nil {
		log.Fatal(err)
	}
	if _, _, err := c.FilterLines(context.Background(), "ip", strings.NewReader("10.0.0.1"), new(bytes.Buffer)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Check(context.Background(), "ip", []string{"10.0.0.1", "10.0.0.2"}))
	// Output: [false true] <nil>
}

// Items are duplicates for ten minutes after they were found new.
func ExampleExpire() {
	c, err := client.New(daemonURL())
	if err != nil {
		log.Fatal(err)
	}
	if _, _, err := c.CreateFilter(context.Background(), "recent", client.FilterSpec{Kind: "timing"}); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		fmt.Println(c.Filter(context.Background(), "recent", []string{"https://example.com/news"}, client.Expire(10*time.Minute)))
	}
	// Output:
	// [https://example.com/news] <nil>
	// [] <nil>
}

// Two daemons on one Redis, and a crawler that would rather fetch a page twice than miss it.
func ExampleWithInDoubt() {
	c, err := client.New(daemonURL()+","+daemonURL(), client.WithInDoubt(client.DoubtNew), client.WithPatience(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Filter(context.Background(), "uri", []string{"https://example.com/"}))
	// Output: [https://example.com/] <nil>
}

func ExampleError() {
	c, err := client.New(daemonURL())
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.Filter(context.Background(), "pages", []string{"https://example.com/"})
	var e *client.Error
	if errors.As(err, &e) && e.ErrorCode == "unknown_filter" {
		fmt.Println("choose one of", e.Known)
	}
	// Output: choose one of [ip uri uri_download uri_generator uri_parse]
}
