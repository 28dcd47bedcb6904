package testserver

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// Await waits until so holds, which others bring about. After five minutes, far more than a busy machine
// takes, t fails with what others have said by then, such as a Log.
func Await(t testing.TB, what string, so func() bool, said ...fmt.Stringer) {
	t.Helper()
	AwaitNil(t, what, func() error {
		if so() {
			return nil
		}
		return errors.New("it is not so")
	}, said...)
}

// AwaitNil is Await for what succeeds in the end.
func AwaitNil(t testing.TB, what string, try func() error, said ...fmt.Stringer) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; {
		began := time.Now()
		err := try()
		if err == nil {
			return
		}
		if began.After(end) {
			t.Fatalf("not within five minutes: %s: %v\n%s", what, err, said)
		}
		// To look is work, too: some start a process for it.
		time.Sleep(min(max(2*time.Millisecond, 4*time.Since(began)), 100*time.Millisecond))
	}
}

// AwaitReady waits until the server at the URL says that it may be sent requests.
func AwaitReady(t testing.TB, url string, said ...fmt.Stringer) {
	t.Helper()
	AwaitNil(t, url+" is ready", func() error {
		resp, err := http.Get(url + "/readyz")
		if err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		if resp != nil {
			_ = resp.Body.Close()
		}
		return err
	}, said...)
}
