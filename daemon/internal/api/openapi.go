package api

import (
	_ "embed"
	"net/http"
)

//go:embed openapi.yaml
var openAPIText []byte

func (c *call) openAPI() error { return c.send(http.StatusOK, c.s.header.yaml, openAPIText) }
