package browserengine

import "encoding/json"

// Messages to and from the browser, from those parts of the DevTools protocol that are used:
// https://chromedevtools.github.io/devtools-protocol/.
type (
	object = map[string]any

	contextID struct {
		ID string `json:"browserContextId"`
	}
	targetID struct {
		ID string `json:"targetId"`
	}
	sessionID struct {
		ID string `json:"sessionId"`
	}

	// attached is an event: a worker or a frame of the page was created, and waits.
	attached struct {
		Session string `json:"sessionId"`
		Target  struct {
			Type string `json:"type"`
		} `json:"targetInfo"`
	}

	// paused is an event: a request waits to be handled.
	paused struct {
		ID      string `json:"requestId"`
		Frame   string `json:"frameId"`
		Type    string `json:"resourceType"`
		Request struct {
			URL     string            `json:"url"`
			Method  string            `json:"method"`
			Headers map[string]string `json:"headers"`
			HasPost bool              `json:"hasPostData"`
			Post    []struct {
				Bytes []byte `json:"bytes"`
			} `json:"postDataEntries"`
		} `json:"request"`
	}

	fulfil struct {
		ID      string  `json:"requestId"`
		Code    int     `json:"responseCode"`
		Phrase  string  `json:"responsePhrase,omitempty"`
		Headers []field `json:"responseHeaders"`
		Body    []byte  `json:"body"`
	}
	field struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}

	// navigating is an event: a frame is about to request another document.
	navigating struct {
		Frame  string `json:"frameId"`
		Loader string `json:"loaderId"`
	}

	// lifecycle is an event: a document has reached a stage.
	lifecycle struct {
		Frame  string `json:"frameId"`
		Loader string `json:"loaderId"`
		Name   string `json:"name"`
	}

	navigation struct {
		ErrorText string `json:"errorText"`
	}

	evaluation struct {
		Result struct {
			Type           string          `json:"type"`
			Value          json.RawMessage `json:"value"`
			Unserializable string          `json:"unserializableValue"`
		} `json:"result"`
		Exception *struct {
			Text   string `json:"text"`
			Line   int    `json:"lineNumber"`   // from 0
			Column int    `json:"columnNumber"` // from 0
			Value  struct {
				Description string          `json:"description"`
				Value       json.RawMessage `json:"value"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}

	document struct {
		Root struct {
			Node int64 `json:"nodeId"`
		} `json:"root"`
	}
	outerHTML struct {
		HTML string `json:"outerHTML"`
	}
)
