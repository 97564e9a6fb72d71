{{/* What the pods of this chart have in common. */}}

{{- define "spoolrack.podSecurityContext" -}}
runAsNonRoot: true
{{- with .Values.security.runAsUser }}
runAsUser: {{ int64 . }}
{{- end }}
{{- with .Values.security.runAsGroup }}
runAsGroup: {{ int64 . }}
{{- end }}
{{- with .Values.security.fsGroup }}
fsGroup: {{ int64 . }}
{{- end }}
fsGroupChangePolicy: {{ .Values.security.fsGroupChangePolicy }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "spoolrack.securityContext" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "spoolrack.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* Asks the plaintext listener, since the kubelet's own gRPC probes can't speak TLS. */}}
{{- define "spoolrack.probe" -}}
httpGet:
  path: /-/health/{{ .asks }}
  port: health
  scheme: HTTP
periodSeconds: {{ int .times.periodSeconds }}
timeoutSeconds: {{ int .times.timeoutSeconds }}
failureThreshold: {{ int .times.failureThreshold }}
successThreshold: 1
{{- end -}}

{{/*
A pod that is a client of the server: it runs one command of ours and ends. The image has no shell to
wait in, so the command itself waits for the server.
Call with (dict "root" $ "args" list "declares" bool).
*/}}
{{- define "spoolrack.clientPod" -}}
{{- $ := .root -}}
{{- $tls := include "spoolrack.hasTls" $ -}}
{{- $ca := and $tls $.Values.tls.caKey -}}
{{- $shows := and $tls $.Values.client.tlsSecretName -}}
{{- $mounts := or .declares $ca $shows $.Values.client.tokenSecret.name -}}
restartPolicy: Never
serviceAccountName: {{ include "spoolrack.serviceAccountName" $ }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "spoolrack.podSecurityContext" $ | nindent 2 }}
{{- with include "spoolrack.placement" $ | trim }}
{{ . }}
{{- end }}
containers:
  - name: spoolrack
    image: {{ include "spoolrack.image" $ | quote }}
    imagePullPolicy: {{ $.Values.image.pullPolicy }}
    command: [/opt/spoolrack/bin/spoolrack]
    args:
      {{- range .args }}
      - {{ . | quote }}
      {{- end }}
    env:
      - name: SPOOLRACK_URL
        value: {{ include "spoolrack.url" $ | quote }}
      - name: SPOOLRACK_TIMEOUT
        value: {{ $.Values.jobs.timeout | quote }}
      {{- if $ca }}
      - name: SPOOLRACK_CA
        value: /etc/spoolrack/ca/ca.crt
      {{- end }}
      {{- if $shows }}
      - name: SPOOLRACK_CERTIFICATE
        value: /etc/spoolrack/client-tls/tls.crt
      - name: SPOOLRACK_KEY
        value: /etc/spoolrack/client-tls/tls.key
      {{- end }}
      {{- if $.Values.client.tokenSecret.name }}
      - name: SPOOLRACK_TOKEN_FILE
        value: /etc/spoolrack/token/token
      {{- if not $tls }}
      - name: SPOOLRACK_INSECURE
        value: "true"
      {{- end }}
      {{- end }}
    securityContext:
      {{- include "spoolrack.securityContext" $ | nindent 6 }}
    resources:
      {{- toYaml $.Values.jobs.resources | nindent 6 }}
    {{- if $mounts }}
    volumeMounts:
      {{- if .declares }}
      - name: queues
        mountPath: /etc/spoolrack/queues
        readOnly: true
      {{- end }}
      {{- if $ca }}
      - name: ca
        mountPath: /etc/spoolrack/ca
        readOnly: true
      {{- end }}
      {{- if $shows }}
      - name: client-tls
        mountPath: /etc/spoolrack/client-tls
        readOnly: true
      {{- end }}
      {{- if $.Values.client.tokenSecret.name }}
      - name: token
        mountPath: /etc/spoolrack/token
        readOnly: true
      {{- end }}
volumes:
  {{- if .declares }}
  - name: queues
    configMap:
      name: {{ include "spoolrack.fullname" $ }}-queues
  {{- end }}
  {{- if $ca }}
  - name: ca
    secret:
      secretName: {{ include "spoolrack.tlsSecretName" $ }}
      defaultMode: 0440
      items:
        - key: {{ $.Values.tls.caKey }}
          path: ca.crt
  {{- end }}
  {{- if $shows }}
  - name: client-tls
    secret:
      secretName: {{ $.Values.client.tlsSecretName }}
      defaultMode: 0440
      items:
        - key: tls.crt
          path: tls.crt
        - key: tls.key
          path: tls.key
  {{- end }}
  {{- if $.Values.client.tokenSecret.name }}
  - name: token
    secret:
      secretName: {{ $.Values.client.tokenSecret.name }}
      defaultMode: 0440
      items:
        - key: {{ $.Values.client.tokenSecret.key }}
          path: token
  {{- end }}
{{- end }}
{{- end -}}
