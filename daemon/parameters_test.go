package daemon_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
)

// The clients, which import nothing from the daemon, and the description of the interface
// have every parameter of every kind.
func TestClientsHaveEveryParameter(t *testing.T) {
	t.Parallel()
	python, err := os.ReadFile("../python/src/crawlerfilter/_filters.py")
	if err != nil {
		t.Fatal(err)
	}
	spec := regexp.MustCompile(`(?s)\n +spec = \{[^}]*\}`).Find(python)
	openapi, err := os.ReadFile("internal/front/http/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range configs.Parameters() {
		want := p.Type()
		if want == reflect.TypeFor[time.Duration]() {
			want = reflect.TypeFor[float64]() // seconds
		}
		for _, of := range []reflect.Type{reflect.TypeFor[client.FilterSpec](), reflect.TypeFor[client.FilterInfo]()} {
			if got := memberType(of, p.Key); got != want {
				t.Errorf("%s: %s is of the type %v, want %v", of, p.Key, got, want)
			}
		}
		if !strings.Contains(string(spec), `"`+p.Key+`": `) {
			t.Errorf("the Python client cannot send %s: %s", p.Key, spec)
		}
		if !strings.Contains(string(openapi), "\n        "+p.Key+":") {
			t.Errorf("openapi.yaml does not describe %s", p.Key)
		}
	}
}

// memberType is the type of the struct field with the JSON name key; nil: there is none.
func memberType(of reflect.Type, key string) reflect.Type {
	for i := range of.NumField() {
		if name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); name == key {
			return of.Field(i).Type
		}
	}
	return nil
}
